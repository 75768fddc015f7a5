import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync} from 'node:fs';
import path from 'node:path';

import {violations} from './lib/browser.mjs';
import {openStore, slowProxy} from './lib/store.mjs';

async function save(page, button) {
    const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
    return {name: file.suggestedFilename(), content: readFileSync(await file.path())};
}

const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

export default {
    async 'files: look, preview, upload, download, delete'(ctx) {
        const evil = '<img src=x onerror=alert(1)>';
        await ctx.service.provision('files-1');
        await ctx.service.exec('files-1', `mkdir -p dir/deep && echo 'some text' > dir/readme.md &&
            echo '${evil}' > 'dir/${evil.replace('/', '')}.html' && head -c 300 /dev/zero > dir/zeros &&
            seq 1 100000 > dir/long && ln -s readme.md dir/link && printf 'x' > "dir/$(printf '\\377raw')" && : > "dir/#? %"`);
        const page = await ctx.open();
        await page.goto(`${ctx.service.url}/#/executions/files-1/files`);
        await page.getByRole('link', {name: 'dir/', exact: true}).click();
        const list = page.getByRole('list', {name: 'Files'});
        await list.getByText('readme.md', {exact: true}).waitFor();
        await list.getByText('link → readme.md').waitFor();
        const dialog = page.getByRole('dialog');
        const preview = async (name, text) => {
            await list.getByRole('button', {name, exact: true}).click();
            await dialog.locator('.preview, .preview ~ p').filter({hasText: text}).waitFor();
        };
        const close = () => dialog.getByRole('button', {name: 'Close'}).click();
        await preview(`${evil}.html`, evil);
        assert.deepEqual(await violations(page), []);
        await close();
        await preview('zeros', '000000  00 00');
        await close();
        await preview('long', 'The beginning of 575 KiB.');
        await close();
        await preview('\ufffdraw', 'x');
        await close();
        await preview('readme.md', 'some text');
        assert.equal((await save(page, dialog.getByRole('button', {name: 'Download'}))).content.toString(), 'some text\n');
        await close();
        const upload = page.getByLabel('Files to upload');
        await upload.setInputFiles([
            {name: 'pixel.png', mimeType: 'image/png', buffer: PIXEL},
            {name: 'big.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(5000000, 7)},
        ]);
        await list.getByText('pixel.png', {exact: true}).waitFor();
        await list.getByText('big.bin', {exact: true}).waitFor();
        await list.getByRole('button', {name: 'pixel.png', exact: true}).click();
        const picture = dialog.getByRole('img', {name: 'pixel.png'});
        await picture.waitFor();
        await page.waitForFunction(() => document.querySelector('dialog img').naturalWidth === 1);
        await close();
        const sum = await ctx.service.exec('files-1', 'sha256sum < dir/big.bin; stat -c %s dir/big.bin');
        assert.match(sum.stdout, /\n5000000\n/);
        assert.match((await save(page, page.getByRole('button', {name: 'As tar ↓'}))).name, /^dir\.tar$/);
        await ctx.shot(page, 'files');
        await list.getByRole('button', {name: 'Delete #? %'}).click();
        await dialog.getByRole('button', {name: 'Delete'}).click();
        await list.getByText('#? %').waitFor({state: 'detached'});
        await page.getByRole('navigation', {name: 'Directory'}).getByRole('link', {name: '/workspace'}).click();
        await list.getByRole('button', {name: 'Delete dir'}).click();
        await dialog.getByRole('button', {name: 'Delete'}).click();
        await page.getByText('Nothing in here.').waitFor();
        assert.deepEqual(await violations(page), []);
    },

    async 'checkpoints: make, verify, restore, export, delete'(ctx) {
        await ctx.service.provision('cp-1');
        await ctx.service.exec('cp-1', 'echo kept > kept; head -c 100000 /dev/urandom > noise');
        const page = await ctx.open();
        await page.goto(`${ctx.service.url}/#/executions/cp-1`);
        await page.getByRole('button', {name: 'Checkpoint', exact: true}).click();
        const item = page.getByRole('listitem', {name: /^Checkpoint /});
        await item.getByText('local', {exact: true}).waitFor();
        await item.getByText('104 KiB content').waitFor();
        await item.getByText('2 entries').waitFor();
        await page.getByText('No shared store is configured').waitFor();
        assert.equal(await item.getByRole('button', {name: 'Share'}).isDisabled(), true);
        await item.getByRole('button', {name: 'Verify'}).click();
        await item.getByText('Intact: every byte was read.').waitFor();
        assert.ok((await save(page, item.getByRole('button', {name: 'Export ↓'}))).content.length > 100000);
        assert.deepEqual(await violations(page), []);
        await ctx.shot(page, 'checkpoints');
        await item.getByRole('button', {name: 'Restore…'}).click();
        const dialog = page.getByRole('dialog');
        await dialog.getByLabel('Id of the new execution').fill('cp-2');
        assert.deepEqual(await violations(page), []);
        await dialog.getByRole('button', {name: 'Restore'}).click();
        await page.getByRole('heading', {name: 'cp-2'}).waitFor();
        await page.locator('.page-head .pill', {hasText: 'provisioned'}).waitFor();
        assert.equal((await ctx.service.exec('cp-2', 'cat kept')).stdout, 'kept\n');
        await page.getByRole('link', {name: 'Checkpoints', exact: true}).first().click();
        await item.getByText('cp-1', {exact: true}).waitFor();
        await item.getByRole('button', {name: 'Delete…'}).click();
        await dialog.getByRole('button', {name: 'Delete'}).click();
        await page.getByText('No checkpoint yet.').waitFor();
    },

    async 'sharing: its progress, what is shared, and why it failed'(ctx) {
        const bucket = `e2e-${process.pid}`;
        const store = await openStore(ctx.options, mkdtempSync(path.join(ctx.options.scratch, 'store-')), bucket);
        const proxy = await slowProxy(store.endpoint, 1 << 20);
        try {
            const settings = {bucket, region: store.region, credentialsFile: store.credentialsFile, pathStyle: true, maxAttempts: 1};
            const service = await ctx.startService({sharedStore: {...settings, endpoint: proxy.endpoint}});
            await service.provision('share-1');
            await service.exec('share-1', 'head -c 12000000 /dev/urandom > noise');
            await service.call('POST', '/v1/executions/share-1/checkpoints', {checkpointId: 'shared-1'});
            const page = await ctx.open({}, service);
            await page.goto(`${service.url}/#/checkpoints`);
            const item = page.getByRole('listitem', {name: 'Checkpoint shared-1'});
            await item.getByRole('button', {name: 'Share'}).click();
            await item.getByText('uploading', {exact: true}).waitFor();
            await item.getByRole('meter', {name: 'Upload'}).waitFor();
            await item.getByText(/ of 11\.\d MiB/).waitFor();
            assert.deepEqual(await violations(page), []);
            await ctx.shot(page, 'uploading');
            proxy.release();
            await item.getByText('durable', {exact: true}).waitFor();
            await item.getByText(/^s3:\/\/.*shared-1/).waitFor();
            await item.getByText(/^sha256:/).waitFor();
            assert.deepEqual(await violations(page), []);
            await ctx.shot(page, 'durable');
            // A store that is not there.
            const lost = await ctx.startService({sharedStore: {...settings, endpoint: 'http://127.0.0.1:1'}});
            await lost.provision('share-2');
            await lost.call('POST', '/v1/executions/share-2/checkpoints', {checkpointId: 'shared-2'});
            const other = await ctx.open({}, lost);
            await other.goto(`${lost.url}/#/checkpoints`);
            const failed = other.getByRole('listitem', {name: 'Checkpoint shared-2'});
            await failed.getByRole('button', {name: 'Share'}).click();
            await failed.getByText('failed', {exact: true}).waitFor();
            await failed.getByText(/CHECKPOINT_UPLOAD_FAILED/).waitFor();
            assert.equal(await failed.getByRole('button', {name: 'Share'}).isEnabled(), true);
            await ctx.shot(other, 'upload-failed');
        } finally {
            proxy.close();
            await ctx.stopServices();
            await store.close();
        }
    },
};
