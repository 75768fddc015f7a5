// The files of a workspace: look, preview, upload, download, delete.
import {useEffect, useRef, useState} from 'preact/hooks';

import {download, pathOf, query, request, send, upload} from './api';
import {bytes, time} from './format';
import {hrefOf, useChanges, useResource} from './hooks';
import type {Execution, FileItem} from './types';
import {Action, Bar, Confirm, Dialog, Empty, Problem, tell, tellError} from './ui';

const PREVIEW_MAX = 256 * 1024;
const PICTURE_MAX = 16 * 1024 * 1024;
const HEX_MAX = 4096;
// Only what can't hold a program: an SVG is shown as its text.
const PICTURES: Record<string, string> = {
    png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp',
};
const MARK = 'base64:';

// --- names: a path, or "base64:…" of one that is not UTF-8 ---

function nameOf(item: FileItem): string {
    return item.path ?? MARK + item.pathBase64;
}

function asked(name: string): Record<string, string> {
    return name.startsWith(MARK) ? {pathBase64: name.slice(MARK.length)} : {path: name};
}

function rawOf(name: string): Uint8Array {
    return name.startsWith(MARK) ? Uint8Array.from(atob(name.slice(MARK.length)), (c) => c.charCodeAt(0))
        : new TextEncoder().encode(name);
}

function shownName(name: string): string {
    const text = new TextDecoder().decode(rawOf(name));
    return text.slice(text.lastIndexOf('/') + 1);
}

function parentOf(name: string): string | null {
    if (name === '') {
        return null;
    }
    const raw = rawOf(name);
    const parent = raw.slice(0, Math.max(0, raw.lastIndexOf(47)));
    try {
        return new TextDecoder('utf-8', {fatal: true}).decode(parent);
    } catch {
        return MARK + btoa(String.fromCharCode(...parent));
    }
}

function crumbsOf(at: string): string[] {
    const names = [];
    for (let name: string | null = at; name !== null && name !== ''; name = parentOf(name)) {
        names.unshift(name);
    }
    return names;
}

// --- preview ---

type Content = {kind: 'text' | 'hex'; text: string; cut: boolean} | {kind: 'picture'; url: string};

function hexOf(raw: Uint8Array): string {
    const rows = [];
    for (let i = 0; i < Math.min(raw.length, HEX_MAX); i += 16) {
        const row = [...raw.slice(i, i + 16)];
        const hex = row.map((b) => b.toString(16).padStart(2, '0')).join(' ');
        const text = row.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : '.')).join('');
        rows.push(`${i.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`);
    }
    return rows.join('\n');
}

function textOf(raw: Uint8Array, cut: boolean): string | null {
    if (raw.includes(0)) {
        return null;
    }
    try {
        // What is cut may end in the middle of a character.
        return new TextDecoder('utf-8', {fatal: true}).decode(raw, {stream: cut});
    } catch {
        return null;
    }
}

async function contentOf(path: string, item: FileItem, signal: AbortSignal): Promise<Content> {
    const name = nameOf(item);
    const type = PICTURES[name.slice(name.lastIndexOf('.') + 1).toLowerCase()];
    const url = `${path}/files/content${query(asked(name))}`;
    if (type !== undefined && item.size <= PICTURE_MAX) {
        const raw = await (await request('GET', url, {signal})).arrayBuffer();
        return {kind: 'picture', url: URL.createObjectURL(new Blob([raw], {type}))};
    }
    const headers: Record<string, string> = item.size > PREVIEW_MAX ? {Range: `bytes=0-${PREVIEW_MAX - 1}`} : {};
    const raw = new Uint8Array(await (await request('GET', url, {headers, signal})).arrayBuffer());
    const cut = raw.length < item.size;
    const text = textOf(raw, cut);
    return text === null ? {kind: 'hex', text: hexOf(raw), cut: item.size > HEX_MAX} : {kind: 'text', text, cut};
}

function Preview({path, item, onClose}: {path: string; item: FileItem; onClose: () => void}) {
    const [content, setContent] = useState<Content | null>(null);
    const name = shownName(nameOf(item));
    useEffect(() => {
        const stop = new AbortController();
        let url: string | null = null;
        contentOf(path, item, stop.signal).then((c) => {
            url = c.kind === 'picture' ? c.url : null;
            setContent(c);
        }, (error) => {
            if (!stop.signal.aborted) {
                tellError('Preview', error);
                onClose();
            }
        });
        return () => {
            stop.abort();
            if (url !== null) {
                URL.revokeObjectURL(url);
            }
        };
    }, []);
    return (
        <Dialog title={name} onClose={onClose}>
            {content === null ? <p class="dim">loading</p> : content.kind === 'picture'
                ? <img class="picture" src={content.url} alt={name} />
                : <>
                    <pre class="preview" tabIndex={0} aria-label={`Content of ${name}`}>{content.text}</pre>
                    {content.cut && <p class="dim">The beginning of {bytes(item.size)}.</p>}
                </>}
            <div class="actions">
                <Action what="Download" onAct={() => download(`${path}/files/content${query(asked(nameOf(item)))}`, name)}>Download</Action>
            </div>
        </Dialog>
    );
}

// --- the listing ---

function Uploads({path, at, onDone}: {path: string; at: string; onDone: () => void}) {
    const [state, setState] = useState<{name: string; sent: number; size: number} | null>(null);
    const input = useRef<HTMLInputElement>(null);
    const [over, setOver] = useState(false);
    const send = async (files: File[]) => {
        for (const file of files) {
            const target = at === '' ? file.name : `${at}/${file.name}`;
            setState({name: file.name, sent: 0, size: file.size});
            try {
                await upload('PUT', `${path}/files/content${query({path: target})}`, file,
                    (sent) => setState({name: file.name, sent, size: file.size}));
                tell('good', `${file.name} is there.`);
            } catch (error) {
                tellError(file.name, error);
            }
        }
        setState(null);
        onDone();
    };
    if (at.startsWith(MARK)) {
        return null;
    }
    return (
        <div class={`drop ${over ? 'over' : ''}`}
            onDragOver={(e) => {
                e.preventDefault();
                setOver(true);
            }}
            onDragLeave={() => setOver(false)}
            onDrop={(e) => {
                e.preventDefault();
                setOver(false);
                void send([...(e.dataTransfer?.files ?? [])]);
            }}>
            <input ref={input} type="file" multiple class="hidden-input" aria-label="Files to upload" tabIndex={-1}
                onChange={(e) => {
                    void send([...(e.currentTarget.files ?? [])]);
                    e.currentTarget.value = '';
                }} />
            <button type="button" disabled={state !== null} onClick={() => input.current!.click()}>Upload…</button>
            {state === null ? <span class="dim wide-only">or drop files here</span>
                : <Bar compact label={`Upload of ${state.name}`} used={state.sent} limit={state.size}
                    text={`${state.name}: ${bytes(state.sent)} of ${bytes(state.size)}`} />}
        </div>
    );
}

function targetOf(item: FileItem): string {
    return item.target ?? (item.targetBase64 ? shownName(MARK + item.targetBase64) : '');
}

export function FilesTab({e, at}: {e: Execution; at: string}) {
    const path = pathOf('executions', e.executionId);
    const usable = e.state === 'provisioned' || e.state === 'provisioning';
    const {data, error, reload} = useResource<{items: FileItem[]}>(usable ? `${path}/files${query(asked(at))}` : null);
    const [opened, setOpened] = useState<FileItem | null>(null);
    const [removes, setRemoves] = useState<FileItem | null>(null);
    useChanges((c) => c.type === 'command' && c.executionId === e.executionId, reload, 500);
    const place = (name: string) => hrefOf(['executions', e.executionId, 'files'],
        {incarnation: String(e.incarnation), path: name || undefined});
    if (!usable) {
        return <Empty>The workspace went with the execution. What it held is in its checkpoints.</Empty>;
    }
    const items = [...(data?.items ?? [])].sort((a, b) =>
        Number(b.type === 'directory') - Number(a.type === 'directory') || (nameOf(a) < nameOf(b) ? -1 : 1));
    return (
        <section aria-label="Files">
            <div class="toolbar">
                <nav class="crumbs grow" aria-label="Directory">
                    <a href={place('')}>/workspace</a>
                    {crumbsOf(at).map((name) => <span key={name}> / <a href={place(name)}>{shownName(name)}</a></span>)}
                </nav>
                <Uploads path={path} at={at} onDone={reload} />
                <Action what="Download" onAct={() => download(`${path}/archive${query(asked(at))}`,
                    `${shownName(at) || e.executionId}.tar`)}>As tar ↓</Action>
                <button onClick={reload}>Look again</button>
            </div>
            {error && <Problem error={error} retry={reload} />}
            {data && items.length === 0 && <Empty>Nothing in here.</Empty>}
            <ul class="list" aria-label="Files">
                {items.slice(0, 2000).map((item) => {
                    const name = nameOf(item);
                    const shown = shownName(name);
                    return (
                        <li key={name} class="list-row">
                            <span class="grow mono break">
                                {item.type === 'directory' ? <a href={place(name)}>{shown}/</a>
                                    : item.type === 'file' ? <button class="link" onClick={() => setOpened(item)}>{shown}</button>
                                        : <span>{shown}{item.type === 'symlink' && ` → ${targetOf(item)}`}</span>}
                            </span>
                            <span class="dim">{item.type === 'file' ? bytes(item.size) : item.type}</span>
                            <span class="dim mono">{item.mode}</span>
                            <span class="dim">{time(item.mtime)}</span>
                            <span class="row-actions">
                                {item.type === 'file' && (
                                    <Action class="quiet" what="Download" onAct={() =>
                                        download(`${path}/files/content${query(asked(name))}`, shown)}>
                                        <span aria-label={`Download ${shown}`}>↓</span>
                                    </Action>
                                )}
                                <button class="quiet" aria-label={`Delete ${shown}`} onClick={() => setRemoves(item)}>✕</button>
                            </span>
                        </li>
                    );
                })}
            </ul>
            {items.length > 2000 && <p class="dim">{items.length - 2000} more are in the archive.</p>}
            {opened && <Preview path={path} item={opened} onClose={() => setOpened(null)} />}
            {removes && (
                <Confirm title={`Delete ${shownName(nameOf(removes))}`} verb="Delete" onClose={() => setRemoves(null)}
                    text={removes.type === 'directory' ? 'The directory goes with all that is in it.' : 'The file goes away.'}
                    onConfirm={async () => {
                        await send('DELETE', `${path}/files${query({...asked(nameOf(removes)),
                            recursive: removes.type === 'directory' ? true : undefined})}`);
                        reload();
                    }} />
            )}
        </section>
    );
}
