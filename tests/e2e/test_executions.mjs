import assert from 'node:assert/strict';

import {violations} from './lib/browser.mjs';

async function provision(page, id) {
    await page.getByRole('button', {name: 'New execution'}).click();
    const dialog = page.getByRole('dialog', {name: 'New execution'});
    await dialog.getByLabel('Id', {exact: true}).fill(id);
    await dialog.getByLabel('Image').locator('option').first().waitFor({state: 'attached'});
    return dialog;
}

export default {
    async 'list: live states of what others do'(ctx) {
        const page = await ctx.open();
        await ctx.service.provision('live-1', {labels: {team: 'blue'}});
        const row = page.getByRole('row', {name: /live-1/});
        await row.getByText('provisioned').waitFor();
        await row.getByText(/\d min left/).waitFor();
        await ctx.service.exec('live-1', 'head -c 9000000 /dev/zero > f');
        await row.getByText(/8\.\d MiB \/ 64 MiB/).waitFor();
        await ctx.service.call('DELETE', '/v1/executions/live-1');
        await row.getByText('terminated').waitFor();
        await row.getByText(/ended/).waitFor();
    },

    async 'create: the form makes an execution, and its faults are at their fields'(ctx) {
        const page = await ctx.open();
        const dialog = await provision(page, 'made-1');
        await dialog.getByLabel('Memory').fill('1 KiB');
        await dialog.getByRole('button', {name: 'Provision'}).click();
        await dialog.locator('.field.wrong').getByText(/memoryBytes|memory/i).first().waitFor();
        await dialog.getByLabel('Memory').fill('128 MiB');
        await dialog.getByLabel('Labels').fill('team=green');
        await dialog.getByLabel('Environment').fill('CI=1\nMODE=a=b');
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'create');
        await dialog.getByRole('button', {name: 'Provision'}).click();
        await page.getByRole('heading', {name: 'made-1'}).waitFor();
        await page.locator('.page-head .pill', {hasText: 'provisioned'}).waitFor();
        const made = await ctx.service.call('GET', '/v1/executions/made-1');
        assert.equal(made.resources.memoryBytes, 128 * 1024 * 1024);
        assert.deepEqual(made.labels, {team: 'green'});
        assert.deepEqual(made.environment, {CI: '1', MODE: 'a=b'});
        await page.getByRole('button', {name: 'Terminate…'}).click();
        await page.getByRole('dialog').getByRole('button', {name: 'Terminate'}).click();
        await page.locator('.page-head .pill', {hasText: 'terminated'}).waitFor();
    },
};
