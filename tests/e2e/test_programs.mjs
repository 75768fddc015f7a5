import assert from 'node:assert/strict';

import {violations} from './lib/browser.mjs';

export default {
    async 'programs: started by the form, its calls answered as they are typed'(ctx) {
        const page = await ctx.open();
        await page.getByRole('link', {name: 'Programs'}).click();
        await page.getByRole('button', {name: 'Run a program'}).click();
        const dialog = page.getByRole('dialog');
        await dialog.getByLabel('What it is for').fill('asks twice');
        await dialog.getByLabel('Program', {exact: true}).fill(`console.log('<b>asking</b>');
const first = await host.number({which: 'best', n: 12345678901234567890});
let said = '';
try { await host.fail('now'); } catch (error) { said = error.message; }
return {first, said};`);
        await dialog.getByLabel('Functions it may call').fill('host: number, fail');
        assert.deepEqual(await violations(page), []);
        await dialog.getByRole('button', {name: 'Run'}).click();
        const story = page.getByRole('region', {name: 'What happened'});
        await story.getByText('<b>asking</b>').waitFor();
        const first = story.getByRole('form', {name: 'Answer call 1'});
        await first.getByLabel('Value, as JSON').fill('[1,');
        await first.getByRole('button', {name: 'Answer'}).click();
        await first.getByText(/not JSON/).waitFor();
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'program');
        await page.emulateMedia({colorScheme: 'dark'});
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'program-dark');
        await first.getByLabel('Value, as JSON').fill('{"big": 1e+30, "deep": [[1]]}');
        await first.getByRole('button', {name: 'Answer'}).click();
        const second = story.getByRole('form', {name: 'Answer call 2'});
        await second.getByLabel('throw an error').check();
        await second.getByLabel('Message of the error').fill('it "failed"');
        await second.getByRole('button', {name: 'Answer'}).click();
        await story.getByText('returned').waitFor();
        const result = await story.getByLabel('Result').textContent();
        assert.deepEqual(JSON.parse(result), {first: {big: 1e30, deep: [[1]]}, said: 'it "failed"'});
        await page.locator('.page-head .pill', {hasText: 'completed'}).waitFor();
        assert.equal(await story.getByText('answered').count(), 2);
        await page.getByRole('link', {name: 'Programs'}).first().click();
        await page.getByRole('listitem').filter({hasText: 'asks twice'}).getByText('completed').waitFor();
        assert.deepEqual(await violations(page), []);
    },

    async 'programs: one that waits is told of in the list, survives a look away, and is aborted'(ctx) {
        const page = await ctx.open();
        await page.getByRole('link', {name: 'Programs'}).click();
        await ctx.service.call('POST', '/v1/ptc/runs?wait=false', {runId: 'waits', description: 'waits for ever',
            program: 'return await host.never(null)', bindings: [{global: 'host', functions: ['never']}]});
        const row = page.getByRole('listitem').filter({hasText: 'waits for ever'});
        await row.getByText('1 waiting').waitFor();
        await row.getByRole('link').click();
        await page.getByRole('form', {name: 'Answer call 1'}).waitFor();
        await page.getByRole('button', {name: 'Abort'}).click();
        await page.locator('.page-head .pill', {hasText: 'abort'}).waitFor();
        await page.getByText('aborted from the dashboard').waitFor();
        await page.getByText('cancelled', {exact: true}).waitFor();
    },
};
