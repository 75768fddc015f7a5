// Programs of a model: start one, follow it, answer its calls.
import {useEffect, useState} from 'preact/hooks';

import {ApiError, pathOf, query, request, send} from './api';
import {duration, millis, parseDuration, time} from './format';
import {go, hrefOf, useChanges, useNow, usePaged, useResource} from './hooks';
import {pretty, rawMember} from './json';
import {follow, StreamEvent} from './stream';
import type {Run, RunSummary} from './types';
import {Action, Dialog, Empty, Facts, Field, Pill, Problem, tellError} from './ui';

const POLL_MS = 1500;

// --- starting one ---

interface Form {
    description: string;
    program: string;
    bindings: string;
    timeout: string;
    mode: string;
    executionId: string;
}

const START: Form = {
    description: '', program: 'console.log("hello");\nreturn 1 + 1;', bindings: '', timeout: '', mode: '',
    executionId: '',
};

// "host: add, number" a line.
function bindingsOf(text: string): unknown[] {
    return text.split('\n').filter((l) => l.trim() !== '').map((line) => {
        const [global, names] = line.split(':');
        return {global: global.trim(), functions: (names ?? '').split(',').map((n) => n.trim()).filter((n) => n !== '')};
    });
}

function StartDialog({onClose}: {onClose: () => void}) {
    const [form, setForm] = useState(START);
    const [error, setError] = useState<ApiError | null>(null);
    const [busy, setBusy] = useState(false);
    const submit = async (event: Event) => {
        event.preventDefault();
        setBusy(true);
        setError(null);
        try {
            const run = await send<Run>('POST', '/v1/ptc/runs?wait=false', {
                description: form.description, program: form.program, bindings: bindingsOf(form.bindings),
                ...(form.timeout === '' ? {} : {timeoutMs: parseDuration(form.timeout)}),
                sandboxPolicy: form.mode === '' ? null : {mode: form.mode},
                executionId: form.executionId || null,
            });
            onClose();
            go(['programs', run.runId]);
        } catch (e) {
            setError(e instanceof ApiError ? e : new ApiError(0, 'FAULT', String(e), null, null));
            setBusy(false);
        }
    };
    const text = (name: keyof Form, label: string, hint?: string, required = false) => (
        <Field label={label} hint={hint}>
            {(props) => <input {...props} value={form[name]} required={required} spellcheck={false}
                onInput={(e) => setForm({...form, [name]: e.currentTarget.value})} />}
        </Field>
    );
    const area = (name: keyof Form, label: string, rows: number, hint: string) => (
        <Field label={label} hint={hint}>
            {(props) => <textarea {...props} class="mono" rows={rows} value={form[name]} spellcheck={false}
                onInput={(e) => setForm({...form, [name]: e.currentTarget.value})} />}
        </Field>
    );
    return (
        <Dialog title="Run a program" onClose={onClose}>
            <form class="form single" onSubmit={submit}>
                {text('description', 'What it is for', undefined, true)}
                {area('program', 'Program', 8, 'body of an async function, TypeScript')}
                {area('bindings', 'Functions it may call', 2, 'a line for each namespace, such as host: add, number')}
                {text('timeout', 'Timeout', 'such as 30 s; left out: the default')}
                <Field label="Sandbox">
                    {(props) => (
                        <select {...props} value={form.mode} onChange={(e) => setForm({...form, mode: e.currentTarget.value})}>
                            <option value="">the default one</option>
                            <option>read-only</option>
                            <option>workspace-write</option>
                        </select>
                    )}
                </Field>
                {text('executionId', 'Inside the execution', 'left out: in a directory of its own')}
                {error && <p class="problem" role="alert"><strong>{error.code}</strong> {error.message}</p>}
                <div class="actions"><button class="primary" disabled={busy}>Run</button></div>
            </form>
        </Dialog>
    );
}

// --- the list ---

export function RunsPage() {
    const [starts, setStarts] = useState(false);
    const list = usePaged<RunSummary>('/v1/ptc/runs', {}, (r) => r.runId);
    useChanges((c) => c.type === 'run', list.reload);
    // Calls have no event of their own here.
    const runs = list.items.some((r) => r.state !== 'settled');
    useEffect(() => {
        if (runs) {
            const timer = setInterval(list.reload, POLL_MS);
            return () => clearInterval(timer);
        }
    }, [runs]);
    return (
        <div class="page">
            <div class="page-head">
                <h1>Programs</h1>
                <button class="primary" onClick={() => setStarts(true)}>Run a program</button>
            </div>
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {list.loaded && list.items.length === 0 && <Empty>No program was run yet.</Empty>}
            <ul class="list" aria-label="Programs">
                {list.items.map((r) => (
                    <li key={r.runId} class="list-row">
                        <a class="grow break" href={hrefOf(['programs', r.runId])}>{r.description}</a>
                        {r.calls.pending > 0 && <Pill tone="busy" state={`${r.calls.pending} waiting`} />}
                        <Pill state={r.outcome ?? r.state} tone={r.outcome && r.outcome !== 'completed' ? 'bad' : undefined} />
                        <span class="dim mono wide-only">{r.runId}</span>
                        <span class="dim">{r.calls.total} calls</span>
                        <span class="dim">{time(r.startedAt)}</span>
                    </li>
                ))}
            </ul>
            {list.more && <button disabled={list.busy} onClick={list.loadMore}>More</button>}
            {starts && <StartDialog onClose={() => setStarts(false)} />}
        </div>
    );
}

// --- one run ---

interface RunEvent extends StreamEvent {
    text?: string;
    callId?: number;
    global?: string;
    function?: string;
    state?: string;
}

interface Call {
    event: RunEvent;
    argument: string | null;
    settled: RunEvent | null;
}

interface Result {
    value: string | null;
    error: {kind: string; message: string} | null;
    sandbox: {mode: string; denied: boolean; enforcement?: string};
    at: string;
}

interface Story {
    started: string | null;
    entries: ({kind: 'log'; event: RunEvent} | {kind: 'call'; call: Call})[];
    result: Result | null;
    error: ApiError | null;
    lost: boolean;
}

function resultOf(event: RunEvent, line: string): Result {
    const raw = rawMember(line, 'result') ?? '{}';
    const message = rawMember(raw, 'error');
    return {value: rawMember(raw, 'value'), error: message === null ? null : JSON.parse(message),
        sandbox: JSON.parse(rawMember(raw, 'sandbox') ?? '{}'), at: event.at};
}

function told(s: Story, event: RunEvent, line: string): Story {
    switch (event.type) {
        case 'started':
            return {...s, started: event.at};
        case 'log':
            return {...s, entries: [...s.entries, {kind: 'log', event}]};
        case 'call':
            return {...s, entries: [...s.entries,
                {kind: 'call', call: {event, argument: rawMember(line, 'argument'), settled: null}}]};
        case 'call-settled':
            return {...s, entries: s.entries.map((entry) =>
                (entry.kind === 'call' && entry.call.event.callId === event.callId
                    ? {kind: 'call', call: {...entry.call, settled: event}} : entry))};
        case 'result':
            return {...s, result: resultOf(event, line)};
        default:
            return s;
    }
}

function useStory(path: string): Story {
    const [story, setStory] = useState<Story>({started: null, entries: [], result: null, error: null, lost: false});
    useEffect(() => {
        const stop = new AbortController();
        void follow<RunEvent>({
            path: `${path}/events`, after: null, signal: stop.signal,
            isLast: (event) => event.type === 'result',
            onEvent: (event, line) => setStory((s) => told(s, event, line)),
            onOpen: () => setStory((s) => ({...s, lost: false})),
            onLost: () => setStory((s) => ({...s, lost: true})),
            onRefused: (error) => setStory((s) => ({...s, error})),
        });
        return () => stop.abort();
    }, [path]);
    return story;
}

function AnswerForm({path, call}: {path: string; call: Call}) {
    const [value, setValue] = useState('');
    const [fails, setFails] = useState(false);
    const [wrong, setWrong] = useState<string | null>(null);
    const [busy, setBusy] = useState(false);
    const submit = async (event: Event) => {
        event.preventDefault();
        let body = `{"ok":false,"message":${JSON.stringify(value)}}`;
        if (!fails) {
            try {
                if (value.trim() !== '') {
                    JSON.parse(value);
                }
            } catch (error) {
                setWrong(`not JSON: ${(error as Error).message}`);
                return;
            }
            // As it was typed: reading it could round a number.
            body = value.trim() === '' ? '{"ok":true}' : `{"ok":true,"value":${value}}`;
        }
        setBusy(true);
        setWrong(null);
        try {
            await request('POST', `${path}/calls/${call.event.callId}`, {text: body});
        } catch (error) {
            tellError('Answer', error);
            setBusy(false);
        }
    };
    return (
        <form class="answer" aria-label={`Answer call ${call.event.callId}`} onSubmit={submit}>
            <Field label={fails ? 'Message of the error' : 'Value, as JSON'} error={wrong}
                hint={fails ? undefined : 'empty: undefined'}>
                {(props) => <textarea {...props} class="mono" rows={2} value={value} spellcheck={false}
                    onInput={(e) => setValue(e.currentTarget.value)} />}
            </Field>
            <label class="check">
                <input type="checkbox" checked={fails} onChange={(e) => setFails(e.currentTarget.checked)} /> throw an error
            </label>
            <button class="primary" disabled={busy}>Answer</button>
        </form>
    );
}

function Entry({path, entry, from, until, open}: {
    path: string; entry: Story['entries'][number]; from: number; until: number; open: boolean;
}) {
    const event = entry.kind === 'log' ? entry.event : entry.call.event;
    const at = millis(event.at);
    const end = entry.kind === 'log' ? at : entry.call.settled ? millis(entry.call.settled.at) : until;
    const share = (t: number) => Math.max(0, Math.min(100, ((t - from) / Math.max(1, until - from)) * 100));
    return (
        <li class={`event ${entry.kind}`}>
            <span class="event-at dim mono">+{duration(at - from)}</span>
            <span class="event-line" aria-hidden="true">
                <span style={{left: `${share(at)}%`, width: `max(3px, ${share(end) - share(at)}%)`}} />
            </span>
            {entry.kind === 'log' ? <pre class="event-body">{entry.event.text}</pre> : (
                <div class="event-body">
                    <p>
                        <strong class="mono break">{entry.call.event.global}.{entry.call.event.function}</strong>{' '}
                        <Pill state={entry.call.settled?.state ?? 'pending'} />{' '}
                        <span class="dim">call {entry.call.event.callId}, {duration(end - at)}</span>
                    </p>
                    {entry.call.argument !== null && <pre tabIndex={0} aria-label="Argument">{pretty(entry.call.argument)}</pre>}
                    {open && entry.call.settled === null && <AnswerForm path={path} call={entry.call} />}
                </div>
            )}
        </li>
    );
}

const ENTRIES_SHOWN = 2000;

export function RunPage({runId}: {runId: string}) {
    const path = pathOf('ptc', 'runs', runId);
    const {data: run, error, reload} = useResource<Run>(path, (c) => c.runId === runId);
    const story = useStory(path);
    const now = useNow(500);
    if (run === null) {
        return error ? <div class="page"><Problem error={error} retry={reload} /></div> : <div class="page" aria-busy="true" />;
    }
    const from = millis(story.started ?? run.startedAt);
    const until = story.result ? millis(story.result.at) : Math.max(now, from);
    const open = story.result === null;
    const hidden = Math.max(0, story.entries.length - ENTRIES_SHOWN);
    return (
        <div class="page">
            <nav class="crumbs" aria-label="Path"><a href="#/programs">Programs</a></nav>
            <div class="page-head">
                <h1 class="break">{run.description}</h1>
                <Pill state={run.outcome ?? run.state} tone={run.outcome && run.outcome !== 'completed' ? 'bad' : undefined} />
                {story.lost && open && <span class="dim" role="status">reconnecting</span>}
                <Action class="danger" what="Abort" disabled={run.state === 'settled'}
                    onAct={() => send('DELETE', path + query({reason: 'aborted from the dashboard'}))}>Abort</Action>
            </div>
            <Facts items={[
                ['Id', <span class="mono break">{run.runId}</span>], ['Started', time(run.startedAt)],
                ['Took', Number.isNaN(from) ? '–' : duration(until - from)],
                ['Calls', `${run.calls.total}, ${run.calls.pending} pending`],
                ['Timeout', run.spec.timeoutMs === null ? 'none' : duration(run.spec.timeoutMs)],
                ['Sandbox', `${run.spec.sandboxPolicy.mode}, network ${run.spec.sandboxPolicy.network}`],
                ...(run.spec.executionId ? [['Inside', run.spec.executionId] as [string, string]] : []),
            ]} />
            <div class="columns">
                <section class="card" aria-label="Program">
                    <h2>Program</h2>
                    <pre class="program" tabIndex={0} aria-label="Source">{run.spec.program.split('\n').map((line, i) =>
                        <span key={i} class="code-line">{line}{'\n'}</span>)}</pre>
                </section>
                <section class="card" aria-label="What happened">
                    <h2>What happened</h2>
                    {story.error && <Problem error={story.error} />}
                    {hidden > 0 && <p class="dim">{hidden} earlier entries are not shown.</p>}
                    <ol class="story">
                        {story.entries.slice(hidden).map((entry) => (
                            <Entry key={(entry.kind === 'log' ? entry.event : entry.call.event).seq} path={path}
                                entry={entry} from={from} until={until} open={open} />
                        ))}
                    </ol>
                    {story.result && (
                        <div class={`result ${story.result.error ? 'bad' : 'good'}`} role="status">
                            <p>
                                <strong>{story.result.error ? story.result.error.kind : 'returned'}</strong>{' '}
                                <span class="dim">after {duration(until - from)}, sandbox {story.result.sandbox.mode}
                                    {story.result.sandbox.denied ? ', something was denied' : ''}</span>
                            </p>
                            <pre tabIndex={0} aria-label="Result">{story.result.error ? story.result.error.message
                                : story.result.value === null ? 'undefined' : pretty(story.result.value)}</pre>
                        </div>
                    )}
                    {open && story.entries.length === 0 && <p class="dim">It runs.</p>}
                </section>
            </div>
        </div>
    );
}
