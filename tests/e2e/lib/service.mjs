// The service under test: a binary, a data directory and a port of its own.
import {spawn, spawnSync} from 'node:child_process';
import {createWriteStream, readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';

const START_MS = 120000;
const CALL_MS = 120000;

function nodeFor(root) {
    return path.join(root, 'build/node/bin/node');
}

export class Service {
    static running = new Set();

    // `config`: keys beside those that every service here has.
    constructor(options, directory, config = {}) {
        this.options = options;
        this.directory = directory;
        this.data = path.join(directory, 'data');
        this.configFile = path.join(directory, 'config.json');
        this.listen = '127.0.0.1:0';
        this.token = null;
        this.restarts = 0;
        writeFileSync(this.configFile, JSON.stringify({
            defaultHost: 'native',
            native: {images: path.join(options.scratch, 'images')},
            ptc: {node: options.node ?? nodeFor(options.root), poolSize: 1},
            ...config,
        }));
    }

    // Once for all services: they share one store of images.
    importImage() {
        const {archive, id} = this.options.images.base;
        const done = spawnSync(this.options.binary, ['image', 'import', '--host', 'native', '--config',
            this.configFile, '--name', 'base', archive], {cwd: this.directory, encoding: 'utf8'});
        if (done.status !== 0 || done.stdout.trim() !== id) {
            throw new Error(`the image could not be imported: ${done.stdout}${done.stderr}`);
        }
        return id;
    }

    async start() {
        const log = createWriteStream(path.join(this.directory, `stderr.${++this.restarts}`));
        this.process = spawn(this.options.binary,
            ['serve', '--config', this.configFile, '--data', this.data, '--listen', this.listen],
            {cwd: this.directory, stdio: ['ignore', 'pipe', 'pipe']});
        this.process.stderr.pipe(log);
        const mine = this.process;
        const kill = () => mine.kill('SIGKILL');
        process.once('exit', kill);
        Service.running.add(this);
        mine.once('exit', () => {
            process.off('exit', kill);
            Service.running.delete(this);
        });
        this.ended = new Promise((resolve) => this.process.once('exit', (code, signal) => resolve({code, signal})));
        this.url = await new Promise((resolve, reject) => {
            let text = '';
            const timer = setTimeout(() => reject(new Error('the service did not start')), START_MS);
            this.process.stdout.on('data', (data) => {
                text += data;
                const line = /^listening on (http:\S+)$/m.exec(text);
                if (line !== null) {
                    clearTimeout(timer);
                    resolve(line[1]);
                }
            });
            this.process.once('exit', (code) => reject(new Error(`the service ended with ${code}`)));
        });
        // The next start is found at the same place.
        this.listen = new URL(this.url).host;
    }

    async kill() {
        this.process.kill('SIGKILL');
        await this.ended;
    }

    // Ends it and what it holds; throws when it did not end clean.
    async stop() {
        if (this.process === undefined || this.process.exitCode !== null || this.process.signalCode !== null) {
            return;
        }
        for (const e of await this.everything('/v1/executions')) {
            if (!['terminated', 'failed'].includes(e.state)) {
                await this.call('DELETE', `/v1/executions/${e.executionId}`);
            }
        }
        this.process.kill('SIGTERM');
        const timer = setTimeout(() => this.process.kill('SIGABRT'), CALL_MS);
        const {code, signal} = await this.ended;
        clearTimeout(timer);
        if (code !== 0) {
            throw new Error(`the service ended with ${code ?? signal}: ${this.log().slice(-2000)}`);
        }
    }

    log() {
        return readFileSync(path.join(this.directory, `stderr.${this.restarts}`), 'utf8');
    }

    async call(method, target, json, headers = {}) {
        const response = await fetch(this.url + target, {
            method,
            headers: {...(this.token && {Authorization: `Bearer ${this.token}`}),
                ...(json !== undefined && {'Content-Type': 'application/json'}), ...headers},
            body: json === undefined ? undefined : JSON.stringify(json),
            signal: AbortSignal.timeout(CALL_MS),
        });
        const text = await response.text();
        if (!response.ok) {
            throw new Error(`${method} ${target}: ${response.status} ${text}`);
        }
        return text === '' ? null : response.headers.get('content-type').includes('json') ? JSON.parse(text) : text;
    }

    // A line to a command's standard input.
    async input(executionId, commandId, line = '') {
        const response = await fetch(`${this.url}/v1/executions/${executionId}/commands/${commandId}/stdin`,
            {method: 'POST', headers: {'Content-Type': 'application/octet-stream'}, body: `${line}\n`});
        if (!response.ok) {
            throw new Error(`standard input: ${response.status} ${await response.text()}`);
        }
    }

    async everything(target) {
        const items = [];
        for (let cursor = ''; ;) {
            const page = await this.call('GET', `${target}?limit=200${cursor && `&cursor=${cursor}`}`);
            items.push(...page.items);
            if (page.nextCursor === null || items.length > 2000) {
                return items;
            }
            cursor = encodeURIComponent(page.nextCursor);
        }
    }

    provision(executionId, more = {}) {
        const {resources, ...rest} = more;
        return this.call('POST', '/v1/executions', {
            executionId, image: this.options.images.base.id, workspace: {kind: 'empty'},
            resources: {cpus: 1, memoryBytes: 268435456, diskBytes: 67108864, pids: 64, runtimeMs: 3600000,
                maxOutputBytes: 8388608, ...resources},
            network: {mode: 'none'}, ...rest,
        });
    }

    exec(executionId, script, more = {}, wait = true) {
        return this.call('POST', `/v1/executions/${executionId}/commands${wait ? '' : '?wait=false'}`,
            {command: '/bin/sh', args: ['-c', script], ...more});
    }
}
