// The service about itself: hosts, what is in use, what the last start found, images.
import {bytes, duration, millis, shortImage, time} from './format';
import {useChanges, useResource} from './hooks';
import type {Host, Image, Service} from './types';
import {Bar, Empty, Facts, Pill, Problem} from './ui';

const COUNTS: [string, string][] = [
    ['adopted', 'adopted: they live on'], ['hostLost', 'ended: gone from their host'],
    ['expired', 'ended: their time was over'], ['destroyedUnrecorded', 'destroyed: of this service, but not recorded'],
    ['thawed', 'thawed'], ['terminationsFinished', 'terminations finished'],
    ['checkpointsRemoved', 'half-made checkpoints removed'], ['transcriptsRepaired', 'transcripts repaired'],
    ['foreignLeftAlone', 'left alone: of other services'],
];

function Reconciliation({service}: {service: Service}) {
    const r = service.lastReconciliation;
    return (
        <section class="card" aria-label="Reconciliation">
            <h2>What the last start found</h2>
            {r === null ? <Empty>Told to tokens with the scope admin.</Empty> : (
                <>
                    <p class="dim">{time(r.startedAt)}, {r.completedAt === null ? 'still going on'
                        : `took ${duration(millis(r.completedAt) - millis(r.startedAt))}`}</p>
                    <table>
                        <thead><tr><th scope="col">What</th><th scope="col" class="number">How many</th></tr></thead>
                        <tbody>
                            {COUNTS.map(([name, text]) => (
                                <tr key={name} class={r[name] === 0 ? 'dim' : ''}>
                                    <th scope="row">{text}</th><td class="number">{r[name]}</td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                    {r.problems.length === 0 ? <p class="note-line good">No problem was left.</p>
                        : <ul class="note-line bad">{r.problems.map((p, i) => <li key={i}>{p}</li>)}</ul>}
                </>
            )}
        </section>
    );
}

function HostCard({host}: {host: Host}) {
    const l = host.limits;
    return (
        <section class="card" aria-label={`Host ${host.name}`}>
            <h2>{host.name} <Pill state={host.state} /></h2>
            {host.reason && <p class="note-line bad">{host.reason}</p>}
            <Facts items={[
                ['Default', host.isDefault ? 'yes' : 'no'],
                ...(host.engine ? [['Engine', `${host.engine.version}, API ${host.engine.apiVersion}`] as [string, string]] : []),
                ['CPUs', `${l.cpus.min} to ${l.cpus.max}`],
                ['Memory', `${bytes(l.memoryBytes.min)} to ${bytes(l.memoryBytes.max)}`],
                ['Workspace', `${bytes(l.diskBytes.min)} to ${bytes(l.diskBytes.max)}`],
                ['Processes', `${l.pids.min} to ${l.pids.max}`],
                ['Lifetime', `up to ${duration(l.runtimeMs.max)}`],
                ['Enforces', host.enforces.join(', ')],
            ]} />
        </section>
    );
}

const QUANTITIES: [string, string][] = [
    ['executions', 'Executions'], ['cpus', 'CPUs'], ['memoryBytes', 'Memory'], ['diskBytes', 'Workspaces'],
    ['commands', 'Commands'], ['runs', 'Programs'], ['storedBytes', 'Stored'],
];

function amount(name: string, n: number | null): string {
    return n === null ? '–' : name.endsWith('Bytes') ? bytes(n) : String(n);
}

// What all tenants together, and whoever asks, may have; what has no bound is left out.
function Bounds({service}: {service: Service}) {
    const used = service.capacity as unknown as Record<string, number>;
    const limits = service.capacity.limits as Record<string, number | null>;
    const bars = QUANTITIES.flatMap(([name, label]) => {
        const quota = service.quotas?.[name];
        const all = limits?.[name] ?? null;
        return [
            all === null || used[name] === undefined ? null : [`${label}, of all`, used[name], all, name] as const,
            !quota || quota.limit === null ? null : [`${label}, yours`, quota.used, quota.limit, name] as const,
        ].filter((bar) => bar !== null);
    });
    return bars.length === 0 ? null : (
        <div class="bars bounds">
            {bars.map(([label, use, limit, name]) => (
                <Bar key={label} label={label} used={use} limit={limit} text={`${amount(name, use)} of ${amount(name, limit)}`} />
            ))}
        </div>
    );
}

export function ServicePage() {
    const {data: s, error, reload} = useResource<Service>('/v1/host');
    const images = useResource<{items: Image[]}>('/v1/images').data?.items ?? [];
    useChanges((c) => c.type === 'execution' || c.type === 'command', reload, 500);
    if (s === null) {
        return error ? <div class="page"><Problem error={error} retry={reload} /></div> : <div class="page" aria-busy="true" />;
    }
    const c = s.capacity;
    return (
        <div class="page">
            <div class="page-head"><h1>Service</h1><span class="dim">version {s.version}, instance <span class="mono">{s.instanceId}</span></span></div>
            <section class="card" aria-label="In use">
                <h2>In use</h2>
                <Facts items={[
                    ['Executions', c.executions], ['Commands running', c.commandsRunning],
                    ['Commands queued', c.commandsQueued], ['CPUs granted', c.cpus],
                    ['Memory granted', bytes(c.memoryBytes)], ['Workspaces granted', bytes(c.diskBytes)],
                    ['Shared store', s.sharedStore ? `${s.sharedStore.bucket} at ${s.sharedStore.endpoint}` : 'not configured'],
                ]} />
                <Bounds service={s} />
            </section>
            <div class="columns">
                <Reconciliation service={s} />
                <div class="stack">{s.hosts.map((h) => <HostCard key={h.name} host={h} />)}</div>
            </div>
            <section class="card" aria-label="Images">
                <h2>Images</h2>
                {images.length === 0 ? <Empty>None yet.</Empty> : (
                    <ul class="list">
                        {images.map((i) => (
                            <li key={`${i.host} ${i.reference}`} class="list-row">
                                <span class="grow mono break" title={i.reference}>{shortImage(i.reference)}</span>
                                <span class="dim">{i.host}</span><span class="dim">{bytes(i.sizeBytes)}</span>
                            </li>
                        ))}
                    </ul>
                )}
            </section>
        </div>
    );
}
