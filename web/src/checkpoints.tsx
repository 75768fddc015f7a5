// Checkpoints: what they hold, how safe they are, and what can be done with them.
import {useEffect, useState} from 'preact/hooks';

import {download, pathOf, send} from './api';
import {bytes, shortImage, time} from './format';
import {go, useChanges, usePaged, useResource} from './hooks';
import {ImportDialog, SharedList} from './shared';
import type {Checkpoint, Execution, Service} from './types';
import {Action, Bar, Confirm, Dialog, Empty, Facts, Field, Pill, Problem, Tabs, tell, tellError} from './ui';

const POLL_MS = 700;

function RestoreDialog({c, onClose}: {c: Checkpoint; onClose: () => void}) {
    const service = useResource<Service>('/v1/host').data;
    const [id, setId] = useState('');
    const [host, setHost] = useState('');
    const [busy, setBusy] = useState(false);
    const submit = async (event: Event) => {
        event.preventDefault();
        setBusy(true);
        try {
            const e = await send<Execution>('POST', `${pathOf('checkpoints', c.checkpointId, 'restore')}?wait=false`,
                {executionId: id || null, host: host || null});
            onClose();
            go(['executions', e.executionId], {incarnation: String(e.incarnation)});
        } catch (error) {
            tellError('Restore', error);
            setBusy(false);
        }
    };
    return (
        <Dialog title={`Restore ${c.checkpointId}`} onClose={onClose}>
            <form class="form" onSubmit={submit}>
                <Field label="Id of the new execution" hint="left out: a random one">
                    {(props) => <input {...props} value={id} spellcheck={false} autofocus onInput={(e) => setId(e.currentTarget.value)} />}
                </Field>
                <Field label="Host">
                    {(props) => (
                        <select {...props} value={host} onChange={(e) => setHost(e.currentTarget.value)}>
                            <option value="">the default one</option>
                            {service?.hosts.map((h) => <option key={h.name} value={h.name} disabled={h.state !== 'available'}>{h.name}</option>)}
                        </select>
                    )}
                </Field>
                <div class="actions"><button class="primary" disabled={busy}>Restore</button></div>
            </form>
        </Dialog>
    );
}

function Upload({c}: {c: Checkpoint}) {
    if (c.shared === null) {
        return null;
    }
    return (
        <div class="shared">
            {c.durability === 'uploading' && (
                <Bar label="Upload" used={c.shared.bytesSent} limit={c.shared.bytesTotal}
                    text={`${bytes(c.shared.bytesSent)} of ${bytes(c.shared.bytesTotal)}`} />
            )}
            {c.shared.error && <p class="note-line bad">{c.shared.error.detail} ({c.shared.error.code})</p>}
            {c.durability === 'durable' && (
                <Facts items={[['Shared as', <span class="mono break">{c.shared.uri}</span>],
                    ['Digest', <span class="mono break">{c.shared.digest}</span>],
                    ['Uploaded', time(c.shared.uploadedAt)]]} />
            )}
        </div>
    );
}

interface Verification {
    ok: boolean;
    problems: string[];
}

function Item({c, store, onChanged}: {c: Checkpoint; store: boolean; onChanged: () => void}) {
    const [restores, setRestores] = useState(false);
    const [removes, setRemoves] = useState(false);
    const [verified, setVerified] = useState<Verification | null>(null);
    const ready = c.archiveDigest !== null;
    const path = pathOf('checkpoints', c.checkpointId);
    return (
        <li class="card checkpoint" aria-label={`Checkpoint ${c.checkpointId}`}>
            <div class="checkpoint-head">
                <strong class="mono break">{c.checkpointId}</strong>
                <Pill state={ready ? c.durability : 'being made'} tone={ready ? undefined : 'busy'} />
                <span class="dim">{time(c.createdAt)}, of <a href={`#/executions/${encodeURIComponent(c.sourceExecutionId)}`}>{c.sourceExecutionId}</a></span>
            </div>
            <p class="figures">
                <span>{bytes(c.sizeBytes)} content</span><span>{bytes(c.archiveBytes)} archive</span>
                <span>{c.entries ?? '–'} entries</span>
                {!!c.skipped && <span>{c.skipped} skipped</span>}
                <span class="dim">{shortImage(c.image)}</span>
            </p>
            <Upload c={c} />
            {verified && (
                <p class={`note-line ${verified.ok ? 'good' : 'bad'}`} role="status">
                    {verified.ok ? 'Intact: every byte was read.' : verified.problems.join(' ')}
                </p>
            )}
            <div class="actions">
                <button disabled={!ready} onClick={() => setRestores(true)}>Restore…</button>
                <Action what="Verify" disabled={!ready} onAct={async () => {
                    setVerified(null);
                    setVerified(await send<Verification>('POST', `${path}/verify`));
                }}>Verify</Action>
                <Action what="Share" disabled={!ready || !store || c.durability === 'durable' || c.durability === 'uploading'}
                    title={store ? undefined : 'No shared store is configured'}
                    onAct={async () => {
                        await send('POST', `${path}/share?wait=false`);
                        onChanged();
                    }}>Share</Action>
                <Action what="Export" disabled={!ready} onAct={() => download(`${path}/export`, `${c.checkpointId}.tar`)}>Export ↓</Action>
                <button class="danger" disabled={!ready} onClick={() => setRemoves(true)}>Delete…</button>
            </div>
            {restores && <RestoreDialog c={c} onClose={() => setRestores(false)} />}
            {removes && (
                <Confirm title={`Delete ${c.checkpointId}`} verb="Delete" onClose={() => setRemoves(false)}
                    text={c.durability === 'durable' ? 'It goes from here.' : 'What it holds is gone then.'}
                    choice={c.durability === 'durable' ? 'from the shared store, too' : undefined}
                    onConfirm={async (shared) => {
                        await send('DELETE', `${path}${shared ? '?shared=true' : ''}`);
                        tell('good', `${c.checkpointId} was deleted.`);
                        onChanged();
                    }} />
            )}
        </li>
    );
}

export function CheckpointTable({sourceExecutionId, durability}: {sourceExecutionId?: string; durability?: string}) {
    const list = usePaged<Checkpoint>('/v1/checkpoints', {sourceExecutionId, durability}, (c) => c.checkpointId);
    const service = useResource<Service>('/v1/host').data;
    useChanges((c) => c.type === 'checkpoint', list.reload);
    // Progress has no event of its own, and a checkpoint that is being made is not told of yet.
    const moves = list.items.some((c) => c.durability === 'uploading' || c.archiveDigest === null);
    useEffect(() => {
        if (moves) {
            const timer = setInterval(list.reload, POLL_MS);
            return () => clearInterval(timer);
        }
    }, [moves]);
    return (
        <>
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {service && !service.sharedStore && list.items.length > 0 && (
                <p class="dim">No shared store is configured: checkpoints are on this machine only.</p>
            )}
            {list.loaded && list.items.length === 0 && <Empty>No checkpoint{durability ? ` is ${durability}` : ' yet'}.</Empty>}
            <ul class="cards" aria-label="Checkpoints">
                {list.items.map((c) => <Item key={c.checkpointId} c={c} store={!!service?.sharedStore} onChanged={list.reload} />)}
            </ul>
            {list.more && <button disabled={list.busy} onClick={list.loadMore}>More</button>}
        </>
    );
}

function Local() {
    const [durability, setDurability] = useState('');
    return (
        <>
            <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
                <Field label="Durability">
                    {(props) => (
                        <select {...props} value={durability} onChange={(e) => setDurability(e.currentTarget.value)}>
                            <option value="">all</option>
                            {['local', 'uploading', 'durable', 'failed'].map((d) => <option key={d}>{d}</option>)}
                        </select>
                    )}
                </Field>
            </form>
            <CheckpointTable durability={durability || undefined} />
        </>
    );
}

const TABS = [{name: 'here', href: '#/checkpoints'}, {name: 'shared store', href: '#/checkpoints/shared'}];

export function CheckpointsPage({shared}: {shared: boolean}) {
    const [imports, setImports] = useState(false);
    return (
        <div class="page">
            <div class="page-head">
                <h1>Checkpoints</h1>
                <button class="primary" onClick={() => setImports(true)}>Import…</button>
            </div>
            <Tabs label="Where they are" tabs={TABS} current={TABS[shared ? 1 : 0].name} />
            {shared ? <SharedList /> : <Local />}
            {imports && <ImportDialog onClose={() => setImports(false)} />}
        </div>
    );
}
