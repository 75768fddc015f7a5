// What the shared store holds, and taking checkpoints in: by reference, or from an exported file.
import {useState} from 'preact/hooks';

import {ApiError, pathOf, send, upload} from './api';
import {bytes, shortImage, time} from './format';
import {go, usePaged, useResource} from './hooks';
import type {Checkpoint, Service, SharedItem} from './types';
import {Action, Bar, Dialog, Empty, Facts, Field, Pill, Problem, tell, tellError} from './ui';

const IMPORT_PATH = pathOf('checkpoints', 'import');

interface Form {
    from: 'store' | 'file';
    uri: string;
    digest: string;
    file: File | null;
}

const START: Form = {from: 'store', uri: '', digest: '', file: null};

async function takeIn(form: Form, progress: (sent: number) => void): Promise<Checkpoint> {
    if (form.from === 'store') {
        return send<Checkpoint>('POST', IMPORT_PATH, {uri: form.uri.trim(), digest: form.digest.trim()});
    }
    return JSON.parse(await upload('POST', IMPORT_PATH, form.file!, progress, 'application/x-tar'));
}

export function ImportDialog({onClose}: {onClose: () => void}) {
    const store = useResource<Service>('/v1/host').data?.sharedStore;
    const [form, setForm] = useState(START);
    const [sent, setSent] = useState<number | null>(null);
    const [error, setError] = useState<ApiError | null>(null);
    const [busy, setBusy] = useState(false);
    const submit = async (event: Event) => {
        event.preventDefault();
        setBusy(true);
        setError(null);
        try {
            const c = await takeIn(form, setSent);
            tell('good', `${c.checkpointId} is here.`);
            onClose();
            go(['checkpoints']);
        } catch (e) {
            if (e instanceof ApiError) {
                setError(e);
            } else {
                tellError('Import', e);
            }
            setBusy(false);
            setSent(null);
        }
    };
    const named = (name: 'uri' | 'digest') => error?.field === `/${name}`;
    const text = (name: 'uri' | 'digest', label: string, example: string) => (
        <Field label={label} error={named(name) ? error!.message : null}>
            {(props) => (
                <input {...props} class="mono" value={form[name]} required spellcheck={false} placeholder={example}
                    onInput={(e) => setForm({...form, [name]: e.currentTarget.value})} />
            )}
        </Field>
    );
    return (
        <Dialog title="Import a checkpoint" onClose={onClose}>
            <form class="form single" onSubmit={submit}>
                <Field label="From">
                    {(props) => (
                        <select {...props} value={form.from} autofocus
                            onChange={(e) => setForm({...form, from: e.currentTarget.value as Form['from']})}>
                            <option value="store">the shared store, by its reference</option>
                            <option value="file">an exported file</option>
                        </select>
                    )}
                </Field>
                {form.from === 'store' && store === null && (
                    <p class="dim">No shared store is configured: only exported files can be taken in.</p>
                )}
                {form.from === 'store' && text('uri', 'URI', `s3://${store?.bucket ?? 'bucket'}/…/manifest.json`)}
                {form.from === 'store' && text('digest', 'Digest', 'sha256:…')}
                {form.from === 'file' && (
                    <Field label="File" hint="a tar that Export gave">
                        {(props) => (
                            <input {...props} type="file" accept=".tar,application/x-tar" required
                                onChange={(e) => setForm({...form, file: e.currentTarget.files?.[0] ?? null})} />
                        )}
                    </Field>
                )}
                {sent !== null && form.file && (
                    <Bar label="Sent" used={sent} limit={form.file.size} text={`${bytes(sent)} of ${bytes(form.file.size)}`} />
                )}
                {error && !named('uri') && !named('digest') && (
                    <p class="problem" role="alert"><strong>{error.code}</strong> {error.message}</p>
                )}
                <p class="dim">Every byte is verified before anything of it is here.</p>
                <div class="actions">
                    <button type="button" onClick={onClose}>Cancel</button>
                    <button class="primary" disabled={busy} aria-busy={busy}>Import{busy ? '…' : ''}</button>
                </div>
            </form>
        </Dialog>
    );
}

function Item({item}: {item: SharedItem}) {
    const [imported, setImported] = useState<Checkpoint | null>(null);
    return (
        <li class="card checkpoint" aria-label={`Shared checkpoint ${item.checkpointId}`}>
            <div class="checkpoint-head">
                <strong class="mono break">{item.checkpointId}</strong>
                {item.problem === null ? <Pill state="durable" /> : <Pill state="unreadable" tone="bad" />}
                {item.createdAt && <span class="dim">{time(item.createdAt)}, of {item.sourceExecutionId}</span>}
            </div>
            {item.problem === null ? (
                <p class="figures">
                    <span>{bytes(item.sizeBytes)} content</span><span>{bytes(item.archiveBytes)} archive</span>
                    <span class="dim">{item.image && shortImage(item.image)}</span>
                </p>
            ) : <p class="note-line bad">{item.problem}</p>}
            <Facts items={[['URI', <span class="mono break">{item.uri}</span>],
                ['Digest', <span class="mono break">{item.digest ?? 'unknown'}</span>],
                ['Uploaded', time(item.uploadedAt)]]} />
            {imported && <p class="note-line good" role="status">It is here, verified: <a href="#/checkpoints">Checkpoints</a></p>}
            <div class="actions">
                <Action what="Import" disabled={item.digest === null || item.problem !== null} onAct={async () => {
                    setImported(null);
                    setImported(await send<Checkpoint>('POST', IMPORT_PATH, {uri: item.uri, digest: item.digest}));
                }}>Import</Action>
            </div>
        </li>
    );
}

function SharedTable({prefix, bucket}: {prefix: string; bucket: string}) {
    const list = usePaged<SharedItem>('/v1/shared-checkpoints', {prefix: prefix || undefined}, (i) => i.uri);
    return (
        <>
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {!list.loaded && list.busy && <p class="dim" role="status">Asking the store…</p>}
            {list.loaded && list.items.length === 0 && (
                <Empty>{prefix ? `Nothing shared begins with “${prefix}”.` : `Nothing is shared in ${bucket} yet.`}</Empty>
            )}
            <ul class="cards" aria-label="Shared checkpoints">
                {list.items.map((i) => <Item key={i.uri} item={i} />)}
            </ul>
            {list.more && <button disabled={list.busy} onClick={list.loadMore}>More</button>}
        </>
    );
}

// The store tells of no changes: it is asked when this is opened, and when a person asks.
export function SharedList() {
    const service = useResource<Service>('/v1/host').data;
    const [prefix, setPrefix] = useState('');
    const [looks, setLooks] = useState(0);
    if (service === null) {
        return null;
    }
    if (service.sharedStore === null) {
        return <Empty>No shared store is configured: <span class="mono">sharedStore</span> names one.</Empty>;
    }
    const {endpoint, bucket} = service.sharedStore;
    return (
        <>
            <p class="dim break">{bucket}{service.sharedStore.prefix && `/${service.sharedStore.prefix}`} at {endpoint}</p>
            <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
                <Field label="Id begins with">
                    {(props) => <input {...props} type="search" value={prefix} maxLength={64} spellcheck={false}
                        onChange={(e) => setPrefix(e.currentTarget.value.trim())} />}
                </Field>
                <div class="field-button"><button type="button" onClick={() => setLooks(looks + 1)}>Look again</button></div>
            </form>
            <SharedTable key={looks} prefix={prefix} bucket={bucket} />
        </>
    );
}
