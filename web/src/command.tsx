// One command: its output as it comes, and what can be said to it.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';

import {ApiError, download, pathOf, query, request, send} from './api';
import {parseLine, Style} from './ansi';
import {outcomeOf, toneOf} from './execution';
import {bytes, commandLine, duration, time} from './format';
import {hrefOf, useResource} from './hooks';
import {follow, StreamEvent} from './stream';
import {isCut, Line, OutputEvent, search, StreamName, Transcript, visible} from './transcript';
import type {Command} from './types';
import {Action, Confirm, Facts, Field, Pill, Problem, tellError, useMedia, Virtual} from './ui';

type Shown = 'both' | StreamName;

interface CommandEvent extends StreamEvent, OutputEvent {
    command?: Command;
}

// --- following ---

function useTranscript(path: string) {
    const transcript = useRef(new Transcript());
    const [version, setVersion] = useState(0);
    const [state, setState] = useState<{over: boolean; lost: boolean; error: ApiError | null}>(
        {over: false, lost: false, error: null});
    useEffect(() => {
        const stop = new AbortController();
        let frame = 0;
        const draw = () => {
            frame ||= requestAnimationFrame(() => {
                frame = 0;
                setVersion((v) => v + 1);
            });
        };
        void follow<CommandEvent>({
            path, after: null, signal: stop.signal,
            isLast: (event) => event.type === 'exit',
            onEvent: (event) => {
                if (event.type === 'stdout' || event.type === 'stderr') {
                    transcript.current.add(event);
                    draw();
                } else if (event.type === 'exit') {
                    setState({over: true, lost: false, error: null});
                }
            },
            onOpen: () => setState((s) => ({...s, lost: false})),
            onLost: () => setState((s) => ({...s, lost: true})),
            onRefused: (error) => setState({over: true, lost: false, error}),
        });
        return () => {
            stop.abort();
            cancelAnimationFrame(frame);
        };
    }, [path]);
    return {transcript: transcript.current, version, ...state};
}

// --- drawing ---

function colour(value: string | null, kind: string): {class: string; css: string | undefined} {
    return value?.startsWith('#') ? {class: '', css: value} : {class: value ? `${kind}-${value}` : '', css: undefined};
}

function look(s: Style): {class: string; style: {color?: string; backgroundColor?: string}} {
    const fg = colour(s.inverse ? s.bg ?? 'back' : s.fg, 'fg');
    const bg = colour(s.inverse ? s.fg ?? 'fore' : s.bg, 'bg');
    const marks = [s.bold && 'bold', s.dim && 'faint', s.italic && 'italic', s.underline && 'under', s.strike && 'strike'];
    return {class: [fg.class, bg.class, ...marks].filter(Boolean).join(' '), style: {color: fg.css, backgroundColor: bg.css}};
}

// Text with what was looked for marked.
function Marked({text, find}: {text: string; find: string}) {
    if (find === '') {
        return <>{text}</>;
    }
    const parts = [];
    const low = text.toLowerCase();
    let from = 0;
    for (let at = low.indexOf(find); at >= 0; at = low.indexOf(find, from)) {
        parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + find.length)}</mark>);
        from = at + find.length;
    }
    return <>{parts}{text.slice(from)}</>;
}

function OutputLine({line, find, current}: {line: Line; find: string; current: boolean}) {
    const {pieces} = parseLine(visible(line.text), line.start);
    return (
        <div class={`out ${line.stream} ${current ? 'current' : ''}`}>
            <span class="gutter">{line.stream === 'stderr' ? 'err' : ''}</span>
            <span class="text">
                {pieces.map((p, i) => <span key={i} {...look(p.style)}><Marked text={p.text} find={find} /></span>)}
                {isCut(line) && <em> … the line goes on in the download</em>}
            </span>
        </div>
    );
}

// --- talking to it ---

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGSTOP', 'SIGCONT', 'SIGKILL'];

function Talk({path, command}: {path: string; command: Command}) {
    const [text, setText] = useState('');
    const [signal, setSignal] = useState('SIGINT');
    const [aborts, setAborts] = useState(false);
    const input = async (body: string, eof: boolean) => {
        try {
            await request('POST', `${path}/stdin${eof ? '?eof=true' : ''}`, {text: body,
                headers: {'Content-Type': 'application/octet-stream'}});
            setText('');
        } catch (error) {
            tellError('Standard input', error);
        }
    };
    return (
        <div class="talk">
            <form class="run-line" aria-label="Standard input" onSubmit={(e) => {
                e.preventDefault();
                void input(`${text}\n`, false);
            }}>
                <Field label="Standard input">
                    {(props) => <input {...props} class="mono" value={text} spellcheck={false} autocomplete="off"
                        placeholder="a line, for commands that keep it open" onInput={(e) => setText(e.currentTarget.value)} />}
                </Field>
                <button>Send</button>
                <button type="button" onClick={() => void input('', true)}>End of input</button>
            </form>
            <div class="run-line">
                <Field label="Signal">
                    {(props) => (
                        <select {...props} value={signal} onChange={(e) => setSignal(e.currentTarget.value)}>
                            {SIGNALS.map((s) => <option key={s}>{s}</option>)}
                        </select>
                    )}
                </Field>
                <Action what="Signal" onAct={() => send('POST', `${path}/signal`, {signal})}>Send signal</Action>
                <button class="danger" onClick={() => setAborts(true)}>Abort…</button>
            </div>
            {aborts && (
                <Confirm title="Abort" verb="Abort" onClose={() => setAborts(false)}
                    text={`Aborting ${command.commandId} destroys the whole execution.`}
                    onConfirm={() => send('DELETE', path)} />
            )}
        </div>
    );
}

// --- the output ---

function Output({path, name, suffix}: {path: string; name: string; suffix: string}) {
    const t = useTranscript(`${path}/events${suffix}`);
    const [shown, setShown] = useState<Shown>('both');
    const [find, setFind] = useState('');
    const [at, setAt] = useState({index: 0});
    const [follows, setFollows] = useState(true);
    const narrow = useMedia('(max-width: 760px)');
    const lines = useMemo(() => (shown === 'both' ? t.transcript.lines
        : t.transcript.lines.filter((l) => l.stream === shown)), [t.version, shown]);
    const found = useMemo(() => search(lines, find), [lines, t.version, find]);
    const spot = found.length === 0 ? null : found[((at.index % found.length) + found.length) % found.length];
    const show = useMemo(() => (spot === null || follows ? undefined : {index: spot}), [spot, at, follows]);
    const step = (by: number) => {
        setFollows(false);
        setAt({index: at.index + by});
    };
    return (
        <section class="card output-card" aria-label="Output">
            <div class="toolbar">
                <div class="segments" role="group" aria-label="Which output">
                    {(['both', 'stdout', 'stderr'] as Shown[]).map((s) => (
                        <button key={s} aria-pressed={s === shown} onClick={() => setShown(s)}>{s}</button>
                    ))}
                </div>
                <form role="search" class="find" onSubmit={(e) => {
                    e.preventDefault();
                    step(1);
                }}>
                    <input type="search" aria-label="Search the output" placeholder="search" value={find}
                        onInput={(e) => {
                            setFind(e.currentTarget.value);
                            setFollows(e.currentTarget.value === '' && follows);
                            setAt({index: 0});
                        }}
                        onKeyDown={(e) => {
                            if (e.key === 'Enter' && e.shiftKey) {
                                e.preventDefault();
                                step(-1);
                            }
                        }} />
                    <span class="dim" role="status">{find !== '' && (spot === null ? 'nothing'
                        : `${found.indexOf(spot) + 1} of ${found.length}`)}</span>
                    <button type="button" aria-label="Previous" disabled={spot === null} onClick={() => step(-1)}>↑</button>
                    <button aria-label="Next" disabled={spot === null}>↓</button>
                </form>
                <label class="check">
                    <input type="checkbox" checked={follows} onChange={(e) => setFollows(e.currentTarget.checked)} /> follow
                </label>
                <Action what="Download" onAct={() => download(`${path}/stdout${suffix}`, `${name}.stdout`)}>stdout ↓</Action>
                <Action what="Download" onAct={() => download(`${path}/stderr${suffix}`, `${name}.stderr`)}>stderr ↓</Action>
                <span class="dim stream-state" role="status">{t.error ? '' : t.over ? 'complete' : t.lost ? 'reconnecting' : 'following'}</span>
            </div>
            {t.error && <Problem error={t.error} />}
            {t.transcript.dropped > 0 && <p class="note-line">{t.transcript.dropped} earlier lines are in the download only.</p>}
            <Virtual class="terminal" label="Output lines" role="log" count={lines.length} rowHeight={narrow ? 20 : 19}
                stickToEnd={follows} onLeaveEnd={() => setFollows(false)} show={show}
                row={(i) => <OutputLine key={lines[i].number} line={lines[i]} find={find.toLowerCase()} current={i === spot} />} />
            {t.over && lines.length === 0 && !t.error && <p class="empty">No output.</p>}
        </section>
    );
}

export function CommandPage({executionId, commandId, incarnation}: {
    executionId: string; commandId: string; incarnation: string | null;
}) {
    const path = pathOf('executions', executionId, 'commands', commandId);
    const suffix = query({incarnation});
    const {data: c, error, reload} = useResource<Command>(path + suffix,
        (change) => change.commandId === commandId && change.executionId === executionId);
    const back = (...parts: string[]) => hrefOf(['executions', executionId, ...parts], {incarnation: incarnation ?? undefined});
    return (
        <div class="page fill">
            <nav class="crumbs" aria-label="Path">
                <a href="#/executions">Executions</a> / <a href={back()}>{executionId}</a>
            </nav>
            {error && c === null && <Problem error={error} retry={reload} />}
            {c && (
                <>
                    <div class="page-head">
                        <h1 class="mono break">{commandLine(c.command, c.args).slice(0, 400)}</h1>
                        <Pill state={outcomeOf(c)} tone={toneOf(c)} />
                    </div>
                    {c.termination?.detail && <p class="note-line">{c.termination.detail}</p>}
                    <Facts items={[
                        ['Id', <span class="mono">{c.commandId}</span>], ['Directory', c.cwd], ['Started', time(c.startedAt)],
                        ['Took', duration(c.usage.wallMs)], ['CPU time', duration(c.usage.cpuMs)],
                        ['Memory peak', bytes(c.usage.memoryPeakBytes)],
                        ['stdout', bytes(c.stdoutBytes)], ['stderr', bytes(c.stderrBytes) + (c.truncated ? ', cut at the cap' : '')],
                        ...(c.termination?.checkpointId ? [['Checkpoint', c.termination.checkpointId] as [string, string]] : []),
                    ]} />
                    {c.termination === null && <Talk path={path} command={c} />}
                </>
            )}
            <Output path={path} suffix={suffix} name={commandId} />
        </div>
    );
}
