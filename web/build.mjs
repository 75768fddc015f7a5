// Bundles src/ and writes what the binary embeds: the page, its assets under names that carry their
// digest, each plain and packed by gzip, and table.c, which takes them in.
//
//   node build.mjs OUT MODULES
import {createHash} from 'node:crypto';
import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

const here = path.dirname(fileURLToPath(import.meta.url));
const out = path.resolve(process.argv[2]);
const modules = path.resolve(process.argv[3]);
const esbuild = createRequire(path.join(modules, 'x'))('esbuild');

const TYPES = {
    '.html': 'text/html; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.css': 'text/css; charset=utf-8',
    '.svg': 'image/svg+xml',
};

function digest(bytes) {
    return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}

async function bundle() {
    const license = readFileSync(path.join(modules, 'preact/LICENSE'), 'utf8');
    const result = await esbuild.build({
        absWorkingDir: here,
        entryPoints: ['src/app.tsx', 'src/app.css', 'src/icon.svg'],
        loader: {'.svg': 'copy'},
        outdir: out,
        entryNames: '[name]-[hash]',
        bundle: true,
        minify: true,
        format: 'esm',
        target: 'es2022',
        charset: 'utf8',
        jsx: 'automatic',
        jsxImportSource: 'preact',
        nodePaths: [modules],
        banner: {js: `/*! Contains Preact.\n${license.replaceAll('*/', '')}*/`},
        write: false,
        logLevel: 'warning',
    });
    return result.outputFiles.map((f) => ({name: path.basename(f.path), bytes: Buffer.from(f.contents)}));
}

function page(assets) {
    let html = readFileSync(path.join(here, 'src/index.html'), 'utf8');
    for (const kind of ['js', 'css', 'svg']) {
        html = html.replace(`{{${kind}}}`, assets.find((a) => a.name.endsWith(`.${kind}`)).name);
    }
    return {name: '', file: 'index.html', bytes: Buffer.from(html)};
}

function embed(asset, index) {
    const file = asset.file ?? asset.name;
    const packed = gzipSync(asset.bytes, {level: 9});
    writeFileSync(path.join(out, file), asset.bytes);
    writeFileSync(path.join(out, `${file}.gz`), packed);
    return {
        declarations: `EMBED(web_plain_${index}, "${path.join(out, file)}");\n` +
            `EMBED(web_gzip_${index}, "${path.join(out, `${file}.gz`)}");\n`,
        entry: `    {"${asset.name}", "${TYPES[path.extname(file)]}", "${digest(asset.bytes)}", ` +
            `web_plain_${index}_start, web_plain_${index}_end, ` +
            `web_gzip_${index}_start, web_gzip_${index}_end},\n`,
    };
}

rmSync(out, {recursive: true, force: true});
mkdirSync(out, {recursive: true});
const assets = await bundle();
const embedded = [page(assets), ...assets].map(embed);
writeFileSync(path.join(out, 'table.c'), `#include "web/embed.h"

${embedded.map((e) => e.declarations).join('')}
const struct web_embedded web_table[] = {
${embedded.map((e) => e.entry).join('')}};
const size_t web_table_count = ${embedded.length};
`);
