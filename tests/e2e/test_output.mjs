import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';

import {violations} from './lib/browser.mjs';

async function openCommand(ctx, page, executionId, commandId) {
    await page.goto(`${ctx.service.url}/#/executions/${executionId}/commands/${commandId}`);
    await page.getByRole('log', {name: 'Output lines'}).waitFor();
}

async function downloaded(page, name) {
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', {name}).click()]);
    return readFileSync(await file.path());
}

export default {
    async 'output: comes live, in its colours, both streams apart, as text whatever it says'(ctx) {
        const evil = '<img src=x onerror=alert(1)><script>alert(2)</script>';
        await ctx.service.provision('out-1');
        await ctx.service.exec('out-1', `
            printf '\\033[1;31mred\\033[0m plain \\033[38;2;1;200;3mtrue\\033[0m \\033]0;title\\007after\\n'
            printf 'to err\\n' >&2
            printf '%s\\n' '${evil}'
            printf 'progress 1\\rprogress 2\\r'; printf 'progress 3\\n'
            printf '\\303'; read wait; printf '\\244 split\\n'
            read wait; printf 'the end\\n'`, {commandId: 'colours', stdinOpen: true}, false);
        const page = await ctx.open();
        await openCommand(ctx, page, 'out-1', 'colours');
        const log = page.getByRole('log');
        await log.getByText('red', {exact: true}).waitFor();
        assert.equal(await log.getByText('red', {exact: true}).getAttribute('class'), 'fg-c1 bold');
        assert.equal(await log.getByText('true', {exact: true}).evaluate((e) => getComputedStyle(e).color), 'rgb(1, 200, 3)');
        await log.getByText('after', {exact: false}).first().waitFor();
        await log.getByText(evil).waitFor();
        await log.getByText('progress 3', {exact: true}).waitFor();
        assert.equal(await log.getByText('progress 1').count(), 0);
        assert.equal(await log.getByText('title').count(), 0);
        await page.getByRole('status').getByText('following').waitFor();
        const input = page.getByLabel('Standard input').getByRole('textbox');
        await input.fill('one');
        await page.getByRole('button', {name: 'Send', exact: true}).click();
        await log.getByText('ä split', {exact: true}).waitFor();
        await input.fill('two');
        await input.press('Enter');
        await log.getByText('the end').waitFor();
        await page.locator('.page-head .pill', {hasText: 'exit 0'}).waitFor();
        await page.getByText('complete', {exact: true}).waitFor();
        await page.getByRole('button', {name: 'stderr', exact: true}).click();
        await log.getByText('to err').waitFor();
        assert.equal(await log.locator('.out').count(), 1);
        await page.getByRole('button', {name: 'stdout', exact: true}).click();
        await log.getByText('the end').waitFor();
        assert.equal(await log.getByText('to err').count(), 0);
        await page.getByRole('button', {name: 'both', exact: true}).click();
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'output-light');
        await page.emulateMedia({colorScheme: 'dark'});
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'output-dark');
        assert.equal((await downloaded(page, 'stderr ↓')).toString(), 'to err\n');
        assert.match((await downloaded(page, 'stdout ↓')).toString(), /ä split\nthe end\n$/);
    },

    async 'output: a long one is searched, followed and left'(ctx) {
        await ctx.service.provision('out-2');
        await ctx.service.exec('out-2', 'seq 1 60000; read wait; seq 60001 60500; read wait',
            {commandId: 'long', stdinOpen: true}, false);
        const page = await ctx.open();
        await openCommand(ctx, page, 'out-2', 'long');
        const log = page.getByRole('log');
        await log.getByText('60000', {exact: true}).waitFor();
        // Few of so many lines are elements.
        assert.ok(await log.locator('.out').count() < 200);
        const find = page.getByRole('searchbox', {name: 'Search the output'});
        await find.fill('4321');
        await page.getByText('1 of 16', {exact: true}).waitFor();
        await log.locator('.out.current mark', {hasText: '4321'}).waitFor();
        await find.press('Enter');
        await page.getByText('2 of 16', {exact: true}).waitFor();
        await log.locator('.out.current', {hasText: /^14321$/}).waitFor();
        await find.press('Shift+Enter');
        await page.getByText('1 of 16', {exact: true}).waitFor();
        await find.fill('no such thing');
        await page.getByText('nothing', {exact: true}).waitFor();
        await find.fill('');
        const follow = page.getByLabel('follow');
        assert.equal(await follow.isChecked(), false);
        await follow.check();
        await log.getByText('60000', {exact: true}).waitFor();
        await ctx.service.input('out-2', 'long');
        await log.getByText('60500', {exact: true}).waitFor();
        // Who scrolls up is left in peace.
        await log.evaluate((e) => {
            e.scrollTop = 0;
        });
        await log.getByText('1', {exact: true}).waitFor();
        await page.waitForFunction(() => !document.querySelector('.toolbar input[type=checkbox]').checked);
    },

    async 'run: a command by the form, a signal to it, and an abort'(ctx) {
        await ctx.service.provision('run-1');
        const page = await ctx.open();
        await page.goto(`${ctx.service.url}/#/executions/run-1`);
        const form = page.getByRole('form', {name: 'Run a command'});
        await form.getByLabel('Command').fill("trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done");
        await form.getByRole('button', {name: 'Run'}).click();
        const log = page.getByRole('log');
        await log.getByText('ready').waitFor();
        await page.getByLabel('Signal').selectOption('SIGINT');
        await page.getByRole('button', {name: 'Send signal'}).click();
        await log.getByText('caught').waitFor();
        await page.locator('.page-head .pill', {hasText: 'exit 7'}).waitFor();
        // Without a shell, with a directory, input and a timeout.
        await page.getByRole('link', {name: 'run-1'}).click();
        await form.getByText('Options').click();
        await form.getByLabel('through /bin/sh -c').uncheck();
        await form.getByLabel('Command').fill("sh -c 'cat; pwd; sleep 600' x");
        await form.getByLabel('Directory').fill('.');
        await form.getByLabel('Timeout').fill('10 min');
        await form.getByRole('textbox', {name: 'Standard input'}).fill('from the form');
        await form.getByRole('button', {name: 'Run'}).click();
        await log.getByText('from the form/workspace').waitFor();
        await page.getByRole('button', {name: 'Abort…'}).click();
        await page.getByRole('dialog').getByRole('button', {name: 'Abort'}).click();
        await page.locator('.page-head .pill', {hasText: 'aborted'}).waitFor();
        await page.getByRole('link', {name: 'run-1'}).click();
        await page.locator('.page-head .pill', {hasText: 'terminated'}).waitFor();
        await page.getByText('Ended').first().waitFor();
        await page.getByRole('listitem').filter({hasText: 'exit 7'}).first().waitFor();
        await page.getByRole('list', {name: 'Commands by time'}).getByRole('listitem').nth(1).waitFor();
        assert.deepEqual(await violations(page), []);
    },

    async 'restart: the page goes on where it was, and no line is lost or comes twice'(ctx) {
        const service = await ctx.startService();
        await service.provision('keep-1');
        await service.exec('keep-1', 'seq 1 1000; read wait; seq 1001 2000; read wait; seq 2001 3000',
            {commandId: 'through', stdinOpen: true}, false);
        const page = await ctx.open({}, service);
        const list = await ctx.open({}, service);
        await page.goto(`${service.url}/#/executions/keep-1/commands/through`);
        const log = page.getByRole('log');
        const more = () => service.input('keep-1', 'through');
        await log.getByText('1000', {exact: true}).waitFor();
        await service.kill();
        await page.locator('.live.lost').waitFor();
        await page.getByText('reconnecting', {exact: true}).first().waitFor();
        await ctx.shot(page, 'lost');
        await service.start();
        await page.locator('.live.open').waitFor();
        await more();
        await log.getByText('2000', {exact: true}).waitFor();
        await more();
        await log.getByText('3000', {exact: true}).waitFor();
        await page.getByText('complete', {exact: true}).waitFor();
        // Every line is there once, in order: look at all of them.
        const lines = await log.evaluate(async (e) => {
            const seen = new Map();
            for (let top = 0; top <= e.scrollHeight; top += e.clientHeight) {
                e.scrollTop = top;
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                const first = Math.round(new DOMMatrix(getComputedStyle(e.querySelector('.virtual-seen')).transform).m42 / 19);
                [...e.querySelectorAll('.out .text')].forEach((t, i) => seen.set(first + i, t.textContent));
            }
            return [...seen].sort((a, b) => a[0] - b[0]).map((s) => s[1]);
        });
        assert.deepEqual(lines, Array.from({length: 3000}, (_, i) => String(i + 1)));
        // The list follows too.
        await list.locator('.live.open').waitFor();
        await service.provision('after-1');
        await list.getByRole('row', {name: /after-1/}).getByText('provisioned').waitFor();
        await page.getByRole('link', {name: 'Service'}).click();
        await page.getByRole('row', {name: 'adopted: they live on 1'}).waitFor();
    },
};
