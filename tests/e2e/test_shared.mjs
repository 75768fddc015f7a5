import assert from 'node:assert/strict';
import {mkdtempSync} from 'node:fs';
import path from 'node:path';

import {overflow, violations} from './lib/browser.mjs';
import {openStore} from './lib/store.mjs';

const PREFIX = 'team';
let buckets = 0;

// A checkpoint of that id with one file, shared; its reference.
async function share(service, checkpointId) {
    await service.provision(`of-${checkpointId}`);
    await service.exec(`of-${checkpointId}`, `echo ${checkpointId} > name`);
    const c = await service.call('POST', `/v1/executions/of-${checkpointId}/checkpoints`, {checkpointId, share: true});
    return {uri: c.shared.uri, digest: c.shared.digest};
}

async function withStore(ctx, test) {
    const bucket = `e2e-list-${process.pid}-${++buckets}`;
    const store = await openStore(ctx.options, mkdtempSync(path.join(ctx.options.scratch, 'store-')), bucket);
    const {endpoint, region, credentialsFile} = store;
    try {
        await test(store, {sharedStore: {endpoint, region, credentialsFile, bucket, prefix: PREFIX, pathStyle: true}});
    } finally {
        await ctx.stopServices();
        await store.close();
    }
}

async function restored(service, checkpointId) {
    await service.call('POST', `/v1/checkpoints/${checkpointId}/restore`, {executionId: `again-${checkpointId}`});
    return (await service.exec(`again-${checkpointId}`, 'cat name')).stdout;
}

export default {
    async 'shared store: what it holds, and imports from it'(ctx) {
        await withStore(ctx, async (store, config) => {
            const first = await ctx.startService(config);
            const alpha = await share(first, 'alpha-1');
            await share(first, 'beta-1');
            store.put(`${PREFIX}/default/checkpoints/gamma-1/manifest.json`, 'not a manifest');
            const second = await ctx.startService(config);
            const page = await ctx.open({}, second);
            await page.goto(`${second.url}/#/checkpoints`);
            await page.getByText('No checkpoint yet.').waitFor();
            await page.getByRole('link', {name: 'shared store'}).click();
            const list = page.getByRole('list', {name: 'Shared checkpoints'});
            const item = (id) => list.getByRole('listitem', {name: `Shared checkpoint ${id}`});
            await item('alpha-1').getByText(alpha.uri, {exact: true}).waitFor();
            await item('alpha-1').getByText(alpha.digest, {exact: true}).waitFor();
            await item('gamma-1').getByText('unreadable', {exact: true}).waitFor();
            assert.deepEqual(await violations(page), []);
            await item('beta-1').getByRole('button', {name: 'Import'}).click();
            await item('beta-1').getByText('It is here, verified').waitFor();
            assert.equal(await restored(second, 'beta-1'), 'beta-1\n');
            const prefix = page.getByLabel('Id begins with');
            await prefix.fill('alp');
            await prefix.press('Enter');
            await item('beta-1').waitFor({state: 'detached'});
            await item('alpha-1').waitFor();
            await prefix.fill('zeta');
            await prefix.press('Enter');
            await page.getByText('Nothing shared begins with “zeta”.').waitFor();
            await prefix.fill('delta');
            await prefix.press('Enter');
            await page.getByText('Nothing shared begins with “delta”.').waitFor();
            await share(first, 'delta-1');
            await page.getByRole('button', {name: 'Look again'}).click();
            await item('delta-1').waitFor();
        });
    },

    async 'shared store: a checkpoint is imported by its reference'(ctx) {
        await withStore(ctx, async (store, config) => {
            const first = await ctx.startService(config);
            const reference = await share(first, 'alpha-1');
            const second = await ctx.startService(config);
            const page = await ctx.open({}, second);
            await page.goto(`${second.url}/#/checkpoints`);
            await page.getByRole('button', {name: 'Import…'}).click();
            const dialog = page.getByRole('dialog');
            await dialog.getByLabel('URI').fill('s3://elsewhere/x/manifest.json');
            await dialog.getByLabel('Digest').fill('sha256:12');
            const go = dialog.getByRole('button', {name: 'Import', exact: true});
            await go.click();
            await dialog.locator('.field.wrong').first().waitFor();
            assert.deepEqual(await violations(page), []);
            await dialog.getByLabel('URI').fill(reference.uri);
            await dialog.getByLabel('Digest').fill(`sha256:${'0'.repeat(64)}`);
            await go.click();
            await dialog.getByText('EXECUTION_CHECKPOINT_INVALID').waitFor();
            assert.deepEqual(await violations(page), []);
            await ctx.shot(page, 'import-refused');
            await dialog.getByLabel('Digest').fill(reference.digest);
            await go.click();
            await dialog.waitFor({state: 'detached'});
            const item = page.getByRole('listitem', {name: 'Checkpoint alpha-1'});
            await item.getByText('durable', {exact: true}).waitFor();
            assert.equal(await restored(second, 'alpha-1'), 'alpha-1\n');
        });
    },

    async 'checkpoints: an exported file is imported'(ctx) {
        const first = await ctx.startService({});
        await first.provision('of-filed');
        await first.exec('of-filed', 'echo filed-1 > name');
        await first.call('POST', '/v1/executions/of-filed/checkpoints', {checkpointId: 'filed-1'});
        const exported = Buffer.from(await (await fetch(`${first.url}/v1/checkpoints/filed-1/export`)).arrayBuffer());
        const second = await ctx.startService({});
        const page = await ctx.open({}, second);
        await page.goto(`${second.url}/#/checkpoints/shared`);
        await page.getByText('No shared store is configured').waitFor();
        await page.getByRole('button', {name: 'Import…'}).click();
        const dialog = page.getByRole('dialog');
        await dialog.getByLabel('From').selectOption('file');
        const choose = (buffer) => dialog.getByLabel('File').setInputFiles({name: 'filed-1.tar', mimeType: 'application/x-tar', buffer});
        const damaged = Buffer.from(exported);
        damaged[damaged.indexOf('"sourceExecutionId"') + 1] ^= 1;
        await choose(damaged);
        await dialog.getByRole('button', {name: 'Import', exact: true}).click();
        await dialog.getByText('EXECUTION_CHECKPOINT_INVALID').waitFor();
        assert.deepEqual(await violations(page), []);
        await choose(exported);
        await dialog.getByRole('button', {name: 'Import', exact: true}).click();
        await dialog.waitFor({state: 'detached'});
        await page.getByRole('listitem', {name: 'Checkpoint filed-1'}).waitFor();
        assert.equal(await restored(second, 'filed-1'), 'filed-1\n');
    },

    async 'look: the shared store in both themes and at the width of a phone'(ctx) {
        await withStore(ctx, async (store, config) => {
            const service = await ctx.startService(config);
            await share(service, 'alpha-1');
            store.put(`${PREFIX}/default/checkpoints/gamma-1/manifest.json`, 'not a manifest');
            for (const colorScheme of ['light', 'dark']) {
                for (const width of [1360, 390]) {
                    const page = await ctx.open({viewport: {width, height: 844}, colorScheme}, service);
                    const check = async (name) => {
                        assert.deepEqual(await violations(page), [], `${name} ${colorScheme} ${width}`);
                        assert.equal(await overflow(page), 0, `${name} at ${width}`);
                        await ctx.shot(page, `${name}-${colorScheme}-${width}`);
                    };
                    await page.goto(`${service.url}/#/checkpoints/shared`);
                    await page.getByRole('listitem', {name: 'Shared checkpoint alpha-1'}).waitFor();
                    await check('shared');
                    await page.getByRole('button', {name: 'Import…'}).click();
                    await page.getByRole('dialog').getByLabel('URI').waitFor();
                    await check('import');
                }
            }
        });
    },
};
