// One execution: its limits, its life, its commands, files and checkpoints.
import {useState} from 'preact/hooks';

import {pathOf, query, send} from './api';
import {CheckpointTable} from './checkpoints';
import {executionHref, lifetime, LifetimeBar} from './executions';
import {FilesTab} from './files';
import {bytes, commandLine, duration, millis, parseDuration, shortImage, time} from './format';
import {go, hrefOf, useChanges, useNow, usePaged, useResource} from './hooks';
import {RunForm} from './runform';
import type {Command, Execution} from './types';
import {Action, Bar, Confirm, Dialog, Empty, Facts, Field, Pill, Problem, Tabs, tell} from './ui';

export function isLive(e: Execution): boolean {
    return e.state === 'provisioning' || e.state === 'provisioned';
}

// --- limits ---

function Limits({e, now}: {e: Execution; now: number}) {
    const {resources: r, usage: u} = e;
    const lived = e.createdAt === null ? null
        : (e.terminatedAt === null ? now : millis(e.terminatedAt)) - millis(e.createdAt);
    const granted = lived === null ? 0 : lived * r.cpus;
    return (
        <section class="card" aria-label="Limits and use">
            <h2>Limits and use</h2>
            <div class="bars">
                {lifetime(e, now) === null
                    ? <Bar label="Lifetime" used={lived} limit={r.runtimeMs} text={`${duration(lived)} of ${duration(r.runtimeMs)}`} />
                    : <LifetimeBar execution={e} now={now} />}
                <Bar label={`CPU time, ${r.cpus} CPUs`} used={u.cpuMs} limit={granted}
                    text={u.cpuMs === null ? 'not known' : `${duration(u.cpuMs)} of ${duration(granted)}`} />
                <Bar label="Memory peak" used={u.memoryPeakBytes} limit={r.memoryBytes}
                    text={`${bytes(u.memoryPeakBytes)} of ${bytes(r.memoryBytes)}`} />
                <Bar label="Workspace" used={u.workspaceBytes} limit={r.diskBytes}
                    text={`${bytes(u.workspaceBytes)} of ${bytes(r.diskBytes)}`} />
                <Bar label="Processes, peak" used={u.pidsPeak} limit={r.pids}
                    text={`${u.pidsPeak ?? '–'} of ${r.pids}`} />
            </div>
        </section>
    );
}

// --- the time line ---

function barOf(c: Command, from: number, until: number, now: number) {
    const start = millis(c.startedAt);
    const end = c.completedAt === null ? now : millis(c.completedAt);
    const left = ((start - from) / (until - from)) * 100;
    return {left: Math.max(0, Math.min(99.5, left)), width: Math.max(0.5, Math.min(100 - left, ((end - start) / (until - from)) * 100))};
}

function TimeLine({e, commands, now}: {e: Execution; commands: Command[]; now: number}) {
    if (e.createdAt === null) {
        return null;
    }
    const from = millis(e.createdAt);
    const until = Math.max(from + 1000, e.terminatedAt === null ? now : millis(e.terminatedAt));
    const started = commands.filter((c) => c.startedAt !== null).slice(0, 100);
    return (
        <section class="card" aria-label="Time line">
            <h2>Time line</h2>
            <div class="timeline">
                <ul class="lane" aria-label="Commands by time">
                    {started.map((c) => {
                        const {left, width} = barOf(c, from, until, now);
                        const memory = c.usage.memoryPeakBytes === null ? 0 : c.usage.memoryPeakBytes / e.resources.memoryBytes;
                        const text = `${commandLine(c.command, c.args)}: ${c.state}, ${duration(c.usage.wallMs)}, memory peak ${bytes(c.usage.memoryPeakBytes)}`;
                        return (
                            <li key={c.commandId} title={text}
                                class={`span ${c.state} ${c.exitCode === 0 || c.state === 'running' ? '' : 'bad'}`}
                                style={{left: `${left}%`, width: `${width}%`, height: `${30 + Math.min(1, memory) * 70}%`}}>
                                <span class="unseen">{text}</span>
                            </li>
                        );
                    })}
                </ul>
                <div class="scale"><span>{time(e.createdAt)}</span><span>commands; their height is memory</span><span>{e.terminatedAt ? time(e.terminatedAt) : 'now'}</span></div>
            </div>
        </section>
    );
}

// --- commands ---

export function outcomeOf(c: Command): string {
    if (c.termination === null) {
        return c.state;
    }
    if (c.termination.reason === 'exited') {
        return `exit ${c.exitCode ?? '?'}`;
    }
    return c.termination.reason === 'signaled' ? c.signal ?? 'signaled' : c.termination.reason;
}

export function toneOf(c: Command): string | undefined {
    return c.termination === null ? undefined : c.exitCode === 0 ? 'good' : 'bad';
}

function CommandsTab({e, list}: {e: Execution; list: ReturnType<typeof usePaged<Command>>}) {
    return (
        <>
            {isLive(e) && <RunForm executionId={e.executionId} onStarted={(c) =>
                go(['executions', e.executionId, 'commands', c.commandId], {incarnation: String(e.incarnation)})} />}
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {list.loaded && list.items.length === 0 && <Empty>No command yet.</Empty>}
            <ul class="list" aria-label="Commands">
                {list.items.map((c) => (
                    <li key={c.commandId} class="list-row">
                        <a class="grow mono" href={executionHref(e, 'commands', c.commandId)}>{commandLine(c.command, c.args)}</a>
                        <Pill state={outcomeOf(c)} tone={toneOf(c)} />
                        <span class="dim">{time(c.startedAt)}</span>
                        <span class="dim">{duration(c.usage.wallMs)}</span>
                        <span class="dim">{bytes(c.stdoutBytes + c.stderrBytes)} out</span>
                    </li>
                ))}
            </ul>
            {list.more && <button disabled={list.busy} onClick={list.loadMore}>More</button>}
        </>
    );
}

// --- what can be done with it ---

function ExtendDialog({e, onClose}: {e: Execution; onClose: () => void}) {
    const [text, setText] = useState('30 min');
    const [wrong, setWrong] = useState<string | null>(null);
    const submit = async (event: Event) => {
        event.preventDefault();
        try {
            const expiresAt = new Date(Date.now() + parseDuration(text)).toISOString();
            await send('PATCH', pathOf('executions', e.executionId), {expiresAt});
            onClose();
        } catch (error) {
            setWrong(error instanceof RangeError ? 'not a duration' : (error as Error).message);
        }
    };
    return (
        <Dialog title="Lifetime" onClose={onClose}>
            <form onSubmit={submit}>
                <Field label="Ends in" hint="from now; at most 24 h after it was made" error={wrong}>
                    {(props) => <input {...props} value={text} autofocus onInput={(ev) => setText(ev.currentTarget.value)} />}
                </Field>
                <div class="actions"><button class="primary">Set</button></div>
            </form>
        </Dialog>
    );
}

function Actions({e}: {e: Execution}) {
    const [asks, setAsks] = useState<'terminate' | 'extend' | null>(null);
    const usable = e.state === 'provisioned';
    return (
        <div class="actions">
            <Action what="Checkpoint" disabled={!usable} onAct={async () => {
                await send('POST', `${pathOf('executions', e.executionId, 'checkpoints')}?wait=false`, {});
                tell('good', 'A checkpoint is being made.');
                go(['executions', e.executionId, 'checkpoints'], {incarnation: String(e.incarnation)});
            }}>Checkpoint</Action>
            <button disabled={!usable} onClick={() => setAsks('extend')}>Lifetime…</button>
            <button class="danger" disabled={!isLive(e)} onClick={() => setAsks('terminate')}>Terminate…</button>
            {asks === 'extend' && <ExtendDialog e={e} onClose={() => setAsks(null)} />}
            {asks === 'terminate' && (
                <Confirm title="Terminate" verb="Terminate" onClose={() => setAsks(null)}
                    text={`${e.executionId} and its workspace go away. Its records and its checkpoints stay.`}
                    onConfirm={() => send('DELETE', pathOf('executions', e.executionId))} />
            )}
        </div>
    );
}

function Details({e}: {e: Execution}) {
    const table = (values: Record<string, unknown>) =>
        Object.keys(values).length === 0 ? '–' : (
            <ul class="plain mono">
                {Object.entries(values).map(([k, v]) => <li key={k}>{k} = {typeof v === 'string' ? v : JSON.stringify(v)}</li>)}
            </ul>
        );
    return (
        <section class="card" aria-label="Details">
            <Facts items={[
                ['Image', <span class="mono break">{e.image}</span>],
                ['Workspace', e.workspace.kind === 'git-worktree' ? `${e.workspace.repositoryPath} at ${e.workspace.revision}` : e.workspace.kind],
                ['Network', 'none'],
                ['Requested', time(e.requestedAt)], ['Usable', time(e.createdAt)], ['Expires', time(e.expiresAt)],
                ['Ended', time(e.terminatedAt)],
                ['Owner', e.owner ? `${e.owner.ownerId}, token ${e.owner.fencingToken}` : '–'],
                ['Restored from', e.restoredFrom ?? '–'],
                ['Output of a command', `at most ${bytes(e.resources.maxOutputBytes)}`],
                ['Labels', table(e.labels)], ['Environment', table(e.environment)], ['Metadata', table(e.metadata)],
            ]} />
        </section>
    );
}

const TABS = ['commands', 'files', 'checkpoints', 'details'];

export function ExecutionPage({executionId, tab, params}: {
    executionId: string; tab: string; params: URLSearchParams;
}) {
    const incarnation = params.get('incarnation');
    const path = pathOf('executions', executionId);
    const mine = (id?: string, n?: number) => id === executionId && (incarnation === null || n === Number(incarnation));
    const {data: e, error, reload} = useResource<Execution>(path + query({incarnation}),
        (c) => mine(c.executionId, c.incarnation));
    const commands = usePaged<Command>(`${path}/commands`, {incarnation: incarnation ?? undefined}, (c) => c.commandId);
    useChanges((c) => c.type === 'command' && mine(c.executionId, c.incarnation), commands.reload);
    const now = useNow();
    if (e === null) {
        return error ? <div class="page"><Problem error={error} retry={reload} /></div> : <div class="page" aria-busy="true" />;
    }
    return (
        <div class="page">
            <nav class="crumbs" aria-label="Path"><a href="#/executions">Executions</a></nav>
            <div class="page-head">
                <h1 class="break">{e.executionId}{e.incarnation > 1 ? ` #${e.incarnation}` : ''}</h1>
                <Pill state={e.state} />
                <span class="dim">{e.host}, {shortImage(e.image)}</span>
                <Actions e={e} />
            </div>
            {error && <Problem error={error} retry={reload} />}
            {e.termination && (
                <p class={`note-line ${e.termination.code ? 'bad' : ''}`}>
                    Ended {time(e.termination.at)}: <strong>{e.termination.reason}</strong> {e.termination.detail}
                </p>
            )}
            {e.warnings.includes('DISK_EXCEEDS_MEMORY') && (
                <p class="note-line">The workspace is larger than memory: filling it ends the execution.</p>
            )}
            <div class="columns">
                <Limits e={e} now={now} />
                <TimeLine e={e} commands={commands.items} now={now} />
            </div>
            <Tabs label="Parts of the execution" current={tab} tabs={TABS.map((name) => ({name,
                href: hrefOf(['executions', executionId, name], {incarnation: incarnation ?? undefined})}))} />
            {tab === 'commands' && <CommandsTab e={e} list={commands} />}
            {tab === 'files' && <FilesTab e={e} at={params.get('path') ?? ''} />}
            {tab === 'checkpoints' && <CheckpointTable sourceExecutionId={executionId} />}
            {tab === 'details' && <Details e={e} />}
        </div>
    );
}

