import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import path from 'node:path';

export default {
    async 'types: those of the page\'s sources agree'({options}) {
        const compiler = path.join(process.env.EXECHOST_E2E_MODULES, 'typescript/bin/tsc');
        const done = spawnSync(process.execPath, [compiler, '-p', path.join(options.root, 'web')], {encoding: 'utf8'});
        assert.equal(done.stdout + done.stderr, '');
    },
};
