// An object store for a test, and a slow way to it. The store is one of EXECHOST_OBJECTS, which
// script/test starts, else one of its own.
import {spawn, spawnSync} from 'node:child_process';
import {readFileSync, writeFileSync} from 'node:fs';
import {connect, createServer} from 'node:net';
import path from 'node:path';

const START_MS = 300000;
const STORE = 'ceph';
const BUCKET = 'import json, sys; sys.path.insert(0, sys.argv[1]); import s3; '
    + 'bucket = s3.Bucket(json.loads(sys.argv[2]), sys.argv[3]); ';

function inBucket(root, store, bucket, does, ...more) {
    const done = spawnSync('/usr/bin/python3', ['-c', BUCKET + does, path.join(root, 'tests/objects'),
        JSON.stringify(store), bucket, ...more], {encoding: 'utf8'});
    if (done.status !== 0) {
        throw new Error(`the bucket: ${done.stderr}`);
    }
}

async function own(root, directory) {
    const servers = spawn(path.join(root, 'tests/objects/servers'), ['--directory', directory, '--only', STORE],
        {stdio: ['ignore', 'pipe', 'inherit']});
    process.once('exit', () => servers.kill());
    await new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error('the object store did not start')), START_MS);
        servers.stdout.once('data', () => resolve(clearTimeout(timer)));
        servers.once('exit', (code) => reject(new Error(`the object store ended with ${code}`)));
    });
    return {file: path.join(directory, 'servers.json'), async close() {
        servers.kill();
        await new Promise((resolve) => servers.once('exit', resolve));
    }};
}

// Passes `first` bytes of each connection on, and the rest once it is let go.
export async function slowProxy(endpoint, first) {
    const {hostname, port} = new URL(endpoint);
    let release;
    const released = new Promise((resolve) => {
        release = resolve;
    });
    const server = createServer((from) => {
        const to = connect(Number(port), hostname);
        let passed = 0;
        from.on('data', (data) => {
            passed += data.length;
            if (passed <= first) {
                to.write(data);
                return;
            }
            from.pause();
            void released.then(() => {
                to.write(data);
                from.resume();
            });
        });
        from.on('end', () => to.end());
        to.pipe(from);
        from.on('error', () => to.destroy());
        to.on('error', () => from.destroy());
        from.on('close', () => to.destroy());
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {endpoint: `http://127.0.0.1:${server.address().port}`, release, close: () => server.close()};
}

// {endpoint, region, credentialsFile, put}, with an empty bucket of that name.
export async function openStore({root}, directory, bucket) {
    const started = process.env.EXECHOST_OBJECTS ? {file: process.env.EXECHOST_OBJECTS, async close() {}}
        : await own(root, directory);
    const store = JSON.parse(readFileSync(started.file, 'utf8'))[STORE];
    inBucket(root, store, bucket, 'bucket.make()');
    const credentialsFile = path.join(directory, 'credentials');
    writeFileSync(credentialsFile, `[default]\naws_access_key_id = ${store.users[0].accessKey}\n`
        + `aws_secret_access_key = ${store.users[0].secretKey}\n`, {mode: 0o600});
    return {
        endpoint: store.endpoint, region: store.region, credentialsFile, close: () => started.close(),
        put: (key, text) =>
            inBucket(root, store, bucket, 'bucket.put(sys.argv[4], sys.argv[5].encode())', key, text),
    };
}
