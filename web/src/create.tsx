// The form that provisions an execution.
import {useState} from 'preact/hooks';

import {ApiError, send} from './api';
import {bytes, parseBytes, parseDuration, shortImage} from './format';
import {useResource} from './hooks';
import type {Execution, Image, Service} from './types';
import {Dialog, Field, tellError} from './ui';

interface Form {
    executionId: string;
    host: string;
    image: string;
    kind: string;
    repositoryPath: string;
    revision: string;
    cpus: string;
    memory: string;
    disk: string;
    pids: string;
    lifetime: string;
    output: string;
    environment: string;
    labels: string;
}

const START: Form = {
    executionId: '', host: '', image: '', kind: 'empty', repositoryPath: '', revision: 'HEAD', cpus: '1',
    memory: '256 MiB', disk: '64 MiB', pids: '128', lifetime: '1 h', output: '8 MiB', environment: '',
    labels: '',
};

// The field of the form that a JSON pointer of the request means.
const FIELDS: [string, keyof Form][] = [
    ['/executionId', 'executionId'], ['/host', 'host'], ['/image', 'image'],
    ['/workspace/repositoryPath', 'repositoryPath'], ['/workspace/revision', 'revision'],
    ['/workspace', 'kind'], ['/resources/cpus', 'cpus'], ['/resources/memoryBytes', 'memory'],
    ['/resources/diskBytes', 'disk'], ['/resources/pids', 'pids'], ['/resources/runtimeMs', 'lifetime'],
    ['/resources/maxOutputBytes', 'output'], ['/environment', 'environment'], ['/labels', 'labels'],
];

function pairs(text: string, separator: string): Record<string, string> {
    const result: Record<string, string> = {};
    for (const line of text.split('\n').filter((l) => l.trim() !== '')) {
        const at = line.indexOf(separator);
        result[(at < 0 ? line : line.slice(0, at)).trim()] = at < 0 ? '' : line.slice(at + 1);
    }
    return result;
}

function bodyOf(f: Form): unknown {
    const workspace = f.kind === 'git-worktree'
        ? {kind: f.kind, repositoryPath: f.repositoryPath, revision: f.revision} : {kind: f.kind};
    return {
        executionId: f.executionId || null, host: f.host || null, image: f.image, workspace,
        resources: {cpus: Number(f.cpus), memoryBytes: parseBytes(f.memory), diskBytes: parseBytes(f.disk),
            pids: Number(f.pids), runtimeMs: parseDuration(f.lifetime), maxOutputBytes: parseBytes(f.output)},
        network: {mode: 'none'}, environment: pairs(f.environment, '='), labels: pairs(f.labels, '='),
    };
}

function fieldOf(error: ApiError | null): keyof Form | null {
    return FIELDS.find(([pointer]) => error?.field?.startsWith(pointer))?.[1] ?? null;
}

export function CreateDialog({onClose, onCreated}: {onClose: () => void; onCreated: (e: Execution) => void}) {
    const service = useResource<Service>('/v1/host').data;
    const images = useResource<{items: Image[]}>('/v1/images').data?.items ?? [];
    const [form, setForm] = useState(START);
    const [error, setError] = useState<ApiError | null>(null);
    const [busy, setBusy] = useState(false);
    const standard = service?.hosts.find((h) => h.isDefault)?.name ?? '';
    const host = form.host || standard;
    const offered = images.filter((i) => i.host === host);
    const image = form.image || offered[0]?.reference || '';
    const limits = service?.hosts.find((h) => h.name === host)?.limits;
    const wrong = fieldOf(error);

    const submit = async (event: Event) => {
        event.preventDefault();
        setBusy(true);
        setError(null);
        try {
            onCreated(await send<Execution>('POST', '/v1/executions?wait=false', bodyOf({...form, image})));
        } catch (e) {
            if (e instanceof ApiError) {
                setError(e);
            } else {
                tellError('Provision', e);
            }
            setBusy(false);
        }
    };
    const text = (name: keyof Form, label: string, hint?: string, required = false) => (
        <Field label={label} hint={hint} error={wrong === name ? error!.message : null}>
            {(props) => (
                <input {...props} value={form[name]} required={required} spellcheck={false}
                    onInput={(e) => setForm({...form, [name]: e.currentTarget.value})} />
            )}
        </Field>
    );
    const area = (name: keyof Form, label: string, hint: string) => (
        <Field label={label} hint={hint} error={wrong === name ? error!.message : null}>
            {(props) => (
                <textarea {...props} rows={2} value={form[name]} spellcheck={false}
                    onInput={(e) => setForm({...form, [name]: e.currentTarget.value})} />
            )}
        </Field>
    );
    return (
        <Dialog title="New execution" onClose={onClose}>
            <form class="form" onSubmit={submit}>
                {text('executionId', 'Id', 'left out: a random one')}
                <Field label="Host" error={wrong === 'host' ? error!.message : null}>
                    {(props) => (
                        <select {...props} value={host} onChange={(e) => setForm({...form, host: e.currentTarget.value, image: ''})}>
                            {service?.hosts.map((h) => (
                                <option key={h.name} value={h.name} disabled={h.state !== 'available'}>
                                    {h.name}{h.state === 'available' ? '' : ' (unavailable)'}
                                </option>
                            ))}
                        </select>
                    )}
                </Field>
                <Field label="Image" hint={offered.length === 0 ? 'none on this host yet: a pinned reference is fetched' : undefined}
                    error={wrong === 'image' ? error!.message : null}>
                    {(props) => offered.length > 0 ? (
                        <select {...props} value={image} onChange={(e) => setForm({...form, image: e.currentTarget.value})}>
                            {offered.map((i) => (
                                <option key={i.reference} value={i.reference}>{shortImage(i.reference)} ({bytes(i.sizeBytes)})</option>
                            ))}
                        </select>
                    ) : (
                        <input {...props} value={form.image} required placeholder="name@sha256:…" spellcheck={false}
                            onInput={(e) => setForm({...form, image: e.currentTarget.value})} />
                    )}
                </Field>
                <Field label="Workspace" error={wrong === 'kind' ? error!.message : null}>
                    {(props) => (
                        <select {...props} value={form.kind} onChange={(e) => setForm({...form, kind: e.currentTarget.value})}>
                            <option value="empty">empty</option>
                            <option value="git-worktree">a git revision</option>
                            <option value="archive">filled by an archive later</option>
                        </select>
                    )}
                </Field>
                {form.kind === 'git-worktree' && text('repositoryPath', 'Repository', 'a path below a configured root', true)}
                {form.kind === 'git-worktree' && text('revision', 'Revision', undefined, true)}
                <fieldset>
                    <legend>Limits</legend>
                    {text('cpus', 'CPUs', limits && `${limits.cpus.min} to ${limits.cpus.max}`, true)}
                    {text('memory', 'Memory', limits && `at least ${bytes(limits.memoryBytes.min)}`, true)}
                    {text('disk', 'Workspace size', limits && `at least ${bytes(limits.diskBytes.min)}`, true)}
                    {text('pids', 'Processes', limits && `${limits.pids.min} to ${limits.pids.max}`, true)}
                    {text('lifetime', 'Lifetime', 'such as 90 s, 30 min, 2 h', true)}
                    {text('output', 'Output of a command', limits && `at most ${bytes(limits.maxOutputBytes.max)}`, true)}
                </fieldset>
                {area('environment', 'Environment', 'NAME=value, one a line')}
                {area('labels', 'Labels', 'key=value, one a line')}
                {error && wrong === null && (
                    <p class="problem" role="alert"><strong>{error.code}</strong> {error.message}</p>
                )}
                <div class="actions">
                    <button type="button" onClick={onClose}>Cancel</button>
                    <button class="primary" disabled={busy}>Provision</button>
                </div>
            </form>
        </Dialog>
    );
}
