import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {createHash} from 'node:crypto';
import path from 'node:path';

import {overflow, violations} from './lib/browser.mjs';

const digest = (text) => createHash('sha256').update(text).digest('hex');

// Many ended executions, as copies of one that ended.
const COPY = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
names = [c[1] for c in db.execute("PRAGMA table_info(executions)") if c[1] != "row"]
wanted = {"execution_id": "printf('old-%05d', n)", "requested_at": "requested_at - 1000 * (? - n)"}
db.execute("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?)"
           f" INSERT INTO executions ({', '.join(names)})"
           f" SELECT {', '.join(wanted.get(n, n) for n in names)} FROM c, executions"
           " WHERE execution_id = 'seed'", (int(sys.argv[2]), int(sys.argv[2])))
db.commit()
`;

export default {
    async 'service: hosts, use, images and what the last start found'(ctx) {
        const page = await ctx.open();
        await page.getByRole('link', {name: 'Service'}).click();
        await page.getByRole('heading', {name: 'What the last start found'}).waitFor();
        await page.getByText('No problem was left.').waitFor();
        await page.getByRole('region', {name: 'Host native'}).getByText('available').waitFor();
        await page.getByRole('region', {name: 'Images'}).getByText(/^base@/).first().waitFor();
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'service');
        await page.getByRole('button', {name: /^Theme: auto/}).click();
        await page.getByRole('button', {name: /^Theme: light/}).click();
        await page.getByRole('button', {name: /^Theme: dark/}).waitFor();
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'service-dark');
        await page.reload();
        await page.getByRole('button', {name: /^Theme: dark/}).waitFor();
        assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    },

    async 'token: asked for, refused, taken, kept for the tab only'(ctx) {
        const service = await ctx.startService({tokens: [
            {sha256: digest('good-token'), tenant: 'a', scopes: ['read', 'write']},
            {sha256: digest('other-token'), tenant: 'b', scopes: ['read', 'write', 'admin']},
        ]});
        service.token = 'good-token';
        await service.provision('mine');
        const page = await ctx.open({}, service);
        const dialog = page.getByRole('dialog', {name: 'Token'});
        await dialog.getByRole('alert').waitFor();
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'token');
        await dialog.getByLabel('Bearer token').fill('bad-token');
        await dialog.getByRole('button', {name: 'Use it'}).click();
        await dialog.getByText('the token is not known here').waitFor();
        await dialog.getByLabel('Bearer token').fill('good-token');
        await dialog.getByRole('button', {name: 'Use it'}).click();
        await page.getByRole('row', {name: /mine/}).getByText('provisioned').waitFor();
        await page.locator('.live.open').waitFor();
        await service.provision('mine-too');
        await page.getByRole('row', {name: /mine-too/}).waitFor();
        await page.reload();
        await page.getByRole('row', {name: /mine-too/}).waitFor();
        await page.getByRole('link', {name: 'Service'}).click();
        await page.getByText('Told to tokens with the scope admin.').waitFor();
        assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('good-token')), false);
        await page.getByRole('button', {name: 'Token'}).click();
        await dialog.getByLabel('Bearer token').fill('other-token');
        await dialog.getByRole('button', {name: 'Use it'}).click();
        await page.getByText('No problem was left.').waitFor();
        await page.getByRole('link', {name: 'Executions'}).click();
        await page.getByText('No execution yet.').waitFor();
        // Another tab has none.
        const other = await ctx.open({}, service);
        await other.getByRole('dialog', {name: 'Token'}).waitFor();
    },

    async 'ten thousand executions: listed, scrolled, found, and live'(ctx) {
        const count = 10000;
        const service = await ctx.startService({}, async (own) => {
            await own.start();
            await own.provision('seed');
            await own.call('DELETE', '/v1/executions/seed');
            await own.stop();
            const done = spawnSync('/usr/bin/python3', ['-c', COPY, path.join(own.data, 'exechost.db'), String(count)], {encoding: 'utf8'});
            assert.equal(done.status, 0, done.stderr);
        });
        const page = await ctx.open({}, service);
        const table = page.getByRole('table', {name: 'Executions'});
        await table.getByText('old-10000').waitFor();
        // Scrolls as fast as pages come, to the very end.
        const rows = page.getByRole('rowgroup', {name: 'Rows'});
        for (;;) {
            await rows.evaluate((e) => {
                e.scrollTop = e.scrollHeight;
            });
            if (await table.getByText('old-00001').count() > 0) {
                break;
            }
            await page.waitForFunction((top) => {
                const e = document.querySelector('.executions .virtual');
                return e.scrollHeight - e.clientHeight > top + 1 || e.textContent.includes('old-00001');
            }, await rows.evaluate((e) => e.scrollTop));
        }
        assert.ok(await table.locator('.row').count() < 100);
        await page.getByText(`${count + 1} shown`, {exact: true}).waitFor();
        // What is new comes while all of that is there, and the place is kept.
        await service.provision('new-1');
        await page.getByText(`${count + 2} shown`, {exact: true}).waitFor();
        await page.getByLabel('Id contains').fill('new-1');
        await table.getByRole('row', {name: /new-1/}).getByText('provisioned').waitFor();
        await page.getByLabel('Id contains').fill('old-0123');
        await page.getByText('10 shown', {exact: true}).waitFor();
        await page.getByLabel('Id contains').fill('');
        await page.getByLabel('State').selectOption('provisioned');
        await page.getByText('1 shown', {exact: true}).waitFor();
        // An id is found though its page has not been seen.
        await page.getByLabel('State').selectOption('terminated');
        await page.getByLabel('Id contains').fill('old-00007');
        await table.getByText('old-00007').waitFor();
        await service.call('DELETE', '/v1/executions/new-1');
    },

    async 'look: both themes, the width of a phone, and the keyboard'(ctx) {
        await ctx.service.provision('look-1', {labels: {team: 'a'}});
        await ctx.service.provision('look-2', {resources: {memoryBytes: 16777216, diskBytes: 8388608}});
        await ctx.service.exec('look-2', 'head -c 7000000 /dev/zero > f');
        await ctx.service.exec('look-1', 'echo hello; seq 1 200000 > f; sleep 1');
        await ctx.service.exec('look-1', 'exit 3');
        for (const colorScheme of ['light', 'dark']) {
            for (const width of [1360, 390]) {
                const page = await ctx.open({viewport: {width, height: 844}, colorScheme});
                await page.getByRole('row', {name: /look-2/}).first().waitFor();
                const check = async (name) => {
                    assert.deepEqual(await violations(page), [], `${name} ${colorScheme} ${width}`);
                    assert.equal(await overflow(page), 0, `${name} at ${width}`);
                    await ctx.shot(page, `${name}-${colorScheme}-${width}`);
                };
                await check('list');
                await page.goto(`${ctx.service.url}/#/executions/look-1`);
                await page.getByRole('listitem').filter({hasText: 'exit 3'}).first().waitFor();
                await check('execution');
                await page.goto(`${ctx.service.url}/#/service`);
                await page.getByRole('region', {name: 'Images'}).getByText(/^base@/).first().waitFor();
                await check('about');
            }
        }
        const page = await ctx.open({viewport: {width: 1000, height: 844}});
        await page.getByRole('row', {name: /look-2/}).waitFor();
        assert.equal(await overflow(page), 0);
        await ctx.shot(page, 'list-1000');
        await page.keyboard.press('Tab');
        await page.keyboard.press('Enter');
        assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
        // Without what other tests make meanwhile.
        await page.getByLabel('Id contains').fill('look-');
        await page.waitForFunction(() => document.querySelectorAll('.executions .virtual .row').length === 2);
        await page.getByRole('link', {name: 'look-2'}).focus();
        await page.keyboard.press('ArrowDown');
        assert.equal(await page.evaluate(() => document.activeElement.textContent), 'look-1');
        await page.keyboard.press('Enter');
        await page.getByRole('heading', {name: 'look-1'}).waitFor();
        await page.getByRole('button', {name: 'Terminate…'}).focus();
        await page.keyboard.press('Enter');
        await page.getByRole('dialog').waitFor();
        await page.keyboard.press('Escape');
        await page.getByRole('dialog').waitFor({state: 'detached'});
        assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Terminate…');
    },
};
