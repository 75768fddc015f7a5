// Debian's Chromium, and what each page of a test is watched for.
import {existsSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(process.env.EXECHOST_E2E_MODULES, 'x'));
const {chromium} = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const WAIT_MS = 120000;
const BINARIES = ['/usr/bin/chromium', '/usr/bin/chromium-browser'];

export async function launch() {
    const executablePath = BINARIES.find(existsSync);
    if (executablePath === undefined) {
        throw new Error('Chromium is missing: apt-get install chromium');
    }
    return chromium.launch({executablePath, handleSIGINT: false, handleSIGTERM: false, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']});
}

// A page with its faults: uncaught errors, refusals by its policy, requests to anywhere else.
export async function open(browser, service, options = {}) {
    const context = await browser.newContext({viewport: {width: 1360, height: 860}, acceptDownloads: true, ...options});
    const page = await context.newPage();
    page.setDefaultTimeout(WAIT_MS);
    const faults = [];
    page.on('pageerror', (error) => faults.push(`uncaught: ${error.stack}`));
    page.on('dialog', (dialog) => {
        faults.push(`a dialog of the page: ${dialog.message()}`);
        void dialog.dismiss();
    });
    page.on('console', (message) => {
        if (/Content Security Policy|Trusted/.test(message.text())) {
            faults.push(message.text());
        }
    });
    page.on('request', (request) => {
        if (!request.url().startsWith(`${service.url}/`) && !request.url().startsWith('blob:')) {
            faults.push(`a request to ${request.url()}`);
        }
    });
    await page.goto(`${service.url}/`);
    await page.locator('.live.open, dialog').first().waitFor();
    return {page, faults, close: () => context.close()};
}

// What axe-core finds wrong, as texts.
export async function violations(page) {
    await page.evaluate(axe);
    const found = await page.evaluate(() => globalThis.axe.run(document, {
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    }));
    return found.violations.map((v) =>
        `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html} ${n.failureSummary}`).join(' | ')}`);
}

// Nothing is wider than the window.
export async function overflow(page) {
    return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
