import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';

import {violations} from './lib/browser.mjs';

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
            await dialog.getByText(text).waitFor();
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
};
