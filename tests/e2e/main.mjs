// Runs the tests of this directory, each in a window of its own; see `run`.
import {mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {parseArgs} from 'node:util';

import {launch, open} from './lib/browser.mjs';
import {Service} from './lib/service.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));

function readOptions() {
    const {values} = parseArgs({options: {
        root: {type: 'string'}, binary: {type: 'string'}, only: {type: 'string'},
        screenshots: {type: 'string'}, images: {type: 'string'},
    }});
    if (values.binary === undefined) {
        console.error('tests/e2e/run: --binary is missing');
        process.exit(2);
    }
    const images = values.images ?? path.join(values.root, 'build/test-images.json');
    return {...values, binary: path.resolve(values.binary), node: process.execPath,
        images: JSON.parse(readFileSync(images, 'utf8'))};
}

// Where the tests find everything: `ctx.service` is shared, `ctx.open` gives a window.
function contextOf(options, browser, service) {
    const ctx = {
        options, service, browser, windows: [], services: [],
        async open(more, at = service) {
            const window = await open(browser, at, more);
            ctx.windows.push(window);
            return window.page;
        },
        async startService(config, prepare) {
            const own = new Service(options, mkdtempSync(path.join(options.scratch, 'service-')), config);
            ctx.services.push(own);
            await prepare?.(own);
            await own.start();
            return own;
        },
        async shot(page, name) {
            if (options.screenshots !== undefined) {
                mkdirSync(options.screenshots, {recursive: true});
                await page.screenshot({path: path.join(options.screenshots, `${name}.png`)});
            }
        },
        async stopServices() {
            for (const own of ctx.services.splice(0)) {
                await own.stop();
            }
        },
        // Ends what a test opened; the faults its pages had.
        async clean() {
            const faults = ctx.windows.flatMap((w) => w.faults);
            await Promise.all(ctx.windows.map((w) => w.close()));
            ctx.windows = [];
            await ctx.stopServices();
            return faults;
        },
    };
    return ctx;
}

async function runTest(ctx, name, test) {
    const started = Date.now();
    try {
        try {
            await test(ctx);
        } catch (error) {
            for (const [i, w] of ctx.windows.entries()) {
                await w.page.screenshot({path: path.join(ctx.options.scratch, `${name}-${i}.png`)}).catch(() => {});
            }
            await ctx.clean().catch(() => {});
            throw error;
        }
        const faults = await ctx.clean();
        if (faults.length > 0) {
            throw new Error(faults.join('\n'));
        }
        console.log(`ok   ${name} (${Math.round((Date.now() - started) / 100) / 10} s)`);
        return true;
    } catch (error) {
        console.log(`FAIL ${name}: ${error.stack}`);
        return false;
    }
}

async function load(only) {
    const tests = [];
    for (const file of readdirSync(here).filter((f) => /^test_.*\.mjs$/.test(f)).sort()) {
        const module = await import(pathToFileURL(path.join(here, file)));
        for (const [name, test] of Object.entries(module.default)) {
            if (only === undefined || name.includes(only)) {
                tests.push([name, test]);
            }
        }
    }
    return tests;
}

// Who is interrupted leaves no execution behind either.
for (const [signal, status] of [['SIGINT', 130], ['SIGTERM', 143]]) {
    process.once(signal, async () => {
        setTimeout(() => process.exit(status), 15000);
        await Promise.allSettled([...Service.running].map((s) => s.stop()));
        process.exit(status);
    });
}
const options = readOptions();
options.scratch = mkdtempSync(path.join(os.tmpdir(), 'e2e-'));
const tests = await load(options.only);
const service = new Service(options, mkdtempSync(path.join(options.scratch, 'service-')));
let failed = 0;
service.importImage();
await service.start();
const browser = await launch();
// Two at a time: each waits for most of its time.
const left = tests.slice();
await Promise.all([1, 2].map(async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const passed = await runTest(contextOf(options, browser, service), ...next);
        failed += passed ? 0 : 1;
    }
}));
await browser.close();
try {
    await service.stop();
} catch (error) {
    console.log(`FAIL after all: ${error.message}`);
    failed++;
}
if (failed === 0) {
    rmSync(options.scratch, {recursive: true, force: true});
} else {
    console.log(`kept: ${options.scratch}`);
}
console.log(`${tests.length - Math.min(failed, tests.length)} passed, ${failed} failed`);
process.exit(failed === 0 && tests.length > 0 ? 0 : 1);
