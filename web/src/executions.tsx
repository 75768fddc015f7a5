// The list of executions: live, filtered, and as long as it gets.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';

import {CreateDialog} from './create';
import {bytes, duration, millis, shortDuration, shortImage, time} from './format';
import {go, hrefOf, useChanges, useNow, usePaged} from './hooks';
import {Change, onChange} from './live';
import type {Execution} from './types';
import {Bar, Empty, Field, Pill, Problem, useMedia, Virtual} from './ui';

const PAGE = 200;
const ROW = 40;
const ROW_NARROW = 84;
const STATES = ['provisioning', 'provisioned', 'terminating', 'terminated', 'failed'];

export function executionHref(e: {executionId: string; incarnation?: number}, ...rest: string[]): string {
    return hrefOf(['executions', e.executionId, ...rest],
        {incarnation: e.incarnation === undefined ? undefined : String(e.incarnation)});
}

function keyOf(e: {executionId: string; incarnation: number}): string {
    return `${e.executionId}#${e.incarnation}`;
}

// What is left of its life against the whole, as [left, whole]; null before and after it.
export function lifetime(e: Execution, now: number): [number, number] | null {
    if (e.createdAt === null || e.expiresAt === null || e.terminatedAt !== null) {
        return null;
    }
    return [Math.max(0, millis(e.expiresAt) - now), millis(e.expiresAt) - millis(e.createdAt)];
}

export function LifetimeBar({execution, now, compact}: {execution: Execution; now: number; compact?: boolean}) {
    const life = lifetime(execution, now);
    if (life === null) {
        return <span class="dim">{execution.terminatedAt ? `ended ${time(execution.terminatedAt)}` : '–'}</span>;
    }
    return <Bar compact={compact} label="Lifetime used" used={life[1] - life[0]} limit={life[1]}
        text={`${compact ? shortDuration(life[0]) : duration(life[0])} left`} />;
}

function Row({e, index, now}: {e: Execution; index: number; now: number}) {
    const why = e.termination?.reason;
    return (
        <div class="row" role="row" aria-rowindex={index + 2}>
            <span role="cell" class="cell-id">
                <a href={executionHref(e)}>{e.executionId}</a>
                {e.incarnation > 1 && <span class="dim"> #{e.incarnation}</span>}
            </span>
            <span role="cell" class="cell-state">
                <Pill state={e.state} />
                {why && why !== 'terminated' && <span class="dim"> {why}</span>}
            </span>
            <span role="cell" class="cell-host">{e.host}</span>
            <span role="cell" class="cell-image" title={e.image}>{shortImage(e.image)}</span>
            <span role="cell" class="cell-memory">
                <Bar compact label="Memory peak" used={e.usage.memoryPeakBytes} limit={e.resources.memoryBytes}
                    text={`${bytes(e.usage.memoryPeakBytes)} / ${bytes(e.resources.memoryBytes)}`} />
            </span>
            <span role="cell" class="cell-disk">
                <Bar compact label="Workspace" used={e.usage.workspaceBytes} limit={e.resources.diskBytes}
                    text={`${bytes(e.usage.workspaceBytes)} / ${bytes(e.resources.diskBytes)}`} />
            </span>
            <span role="cell" class="cell-life"><LifetimeBar compact execution={e} now={now} /></span>
            <span role="cell" class="cell-asked">{time(e.requestedAt)}</span>
        </div>
    );
}

function patched(e: Execution, change: Change): Execution {
    return {...e, state: change.state!, expiresAt: change.expiresAt ?? e.expiresAt,
        terminatedAt: change.state === 'terminated' || change.state === 'failed' ? e.terminatedAt ?? change.at
            : e.terminatedAt,
        createdAt: e.createdAt ?? (change.state === 'provisioned' ? change.at : null),
        termination: e.termination ?? (change.reason
            ? {reason: change.reason, code: null, detail: null, at: change.at} : null)};
}

// Rows are changed in place as the stream tells; of what is not there yet the head is asked for.
function useLiveRows(params: Record<string, string | undefined>) {
    const list = usePaged<Execution>('/v1/executions', params, keyOf, PAGE);
    const latest = useRef(list);
    latest.current = list;
    useEffect(() => onChange((change) => {
        if (change?.type !== 'execution') {
            return;
        }
        const key = `${change.executionId}#${change.incarnation}`;
        latest.current.update((items) => {
            const at = items.findIndex((e) => keyOf(e) === key);
            if (at < 0) {
                return items;
            }
            const next = items.slice();
            const wanted = params.state === undefined || params.state === change.state;
            if (change.state === 'deleted' || !wanted) {
                next.splice(at, 1);
            } else {
                next[at] = patched(items[at], change);
            }
            return next;
        });
    }), [params.state]);
    // The head has figures that a change does not carry.
    useChanges((change) => change.type === 'execution' || change.type === 'command',
        () => latest.current.reload(), 400);
    return list;
}

interface Filter {
    find: string;
    state: string;
    host: string;
    label: string;
    owner: string;
}

function Filters({filter, onChange: set}: {filter: Filter; onChange: (f: Filter) => void}) {
    const text = (name: keyof Filter, label: string, placeholder: string) => (
        <Field label={label}>
            {(props) => (
                <input {...props} type="search" value={filter[name]} placeholder={placeholder}
                    onChange={(e) => set({...filter, [name]: e.currentTarget.value.trim()})}
                    onInput={(e) => name === 'find' && set({...filter, find: e.currentTarget.value.trim()})} />
            )}
        </Field>
    );
    const choice = (name: keyof Filter, label: string, values: string[]) => (
        <Field label={label}>
            {(props) => (
                <select {...props} value={filter[name]} onChange={(e) => set({...filter, [name]: e.currentTarget.value})}>
                    <option value="">all</option>
                    {values.map((v) => <option key={v} value={v}>{v}</option>)}
                </select>
            )}
        </Field>
    );
    return (
        <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
            {text('find', 'Id contains', 'id')}
            {choice('state', 'State', STATES)}
            {choice('host', 'Host', ['native', 'docker'])}
            {text('label', 'Label', 'team:a')}
            {text('owner', 'Owner', 'worker-a')}
        </form>
    );
}

function moveFocus(event: KeyboardEvent): void {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    const row = (event.target as HTMLElement).closest('.row');
    if (step === 0 || row === null) {
        return;
    }
    const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
    next?.querySelector<HTMLElement>('a')?.focus();
    event.preventDefault();
}

const HEADS = ['Execution', 'State', 'Host', 'Image', 'Memory peak', 'Workspace', 'Lifetime', 'Requested'];

export function ExecutionsPage({params}: {params: URLSearchParams}) {
    const [filter, setFilter] = useState<Filter>({find: '', state: params.get('state') ?? '', host: '',
        label: params.get('label') ?? '', owner: ''});
    const [creates, setCreates] = useState(false);
    const narrow = useMedia('(max-width: 760px)');
    const now = useNow();
    const list = useLiveRows({state: filter.state || undefined, host: filter.host || undefined,
        label: filter.label || undefined, ownerId: filter.owner || undefined});
    const rows = useMemo(() => (filter.find === '' ? list.items
        : list.items.filter((e) => e.executionId.includes(filter.find))), [list.items, filter.find]);
    // What is looked for may be on a later page.
    useEffect(() => {
        if (filter.find !== '' && rows.length < 50 && list.more && !list.busy) {
            list.loadMore();
        }
    });
    return (
        <div class="page fill">
            <div class="page-head">
                <h1>Executions</h1>
                <span class="dim" role="status">
                    {rows.length}{list.more ? '+' : ''} shown{list.busy && list.loaded ? ', loading' : ''}
                </span>
                <button class="primary" onClick={() => setCreates(true)}>New execution</button>
            </div>
            <Filters filter={filter} onChange={setFilter} />
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {list.loaded && rows.length === 0 && !list.more &&
                <Empty>No execution {filter.find || filter.state || filter.host || filter.label || filter.owner ? 'passes the filter' : 'yet'}.</Empty>}
            <div class="table executions" role="table" aria-label="Executions"
                aria-rowcount={list.more ? -1 : rows.length + 1} onKeyDown={moveFocus} hidden={rows.length === 0}>
                <div role="rowgroup" class="table-head">
                    <div class="row" role="row" aria-rowindex={1}>
                        {HEADS.map((h) => <span key={h} role="columnheader">{h}</span>)}
                    </div>
                </div>
                <Virtual label="Rows" role="rowgroup" count={rows.length} rowHeight={narrow ? ROW_NARROW : ROW}
                    onNearEnd={list.loadMore}
                    row={(i) => <Row key={keyOf(rows[i])} e={rows[i]} index={i} now={now} />} />
            </div>
            {creates && <CreateDialog onClose={() => setCreates(false)} onCreated={(e) => {
                setCreates(false);
                go(['executions', e.executionId], {incarnation: String(e.incarnation)});
            }} />}
        </div>
    );
}
