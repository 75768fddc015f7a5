// The form that runs a command.
import {useState} from 'preact/hooks';

import {pathOf, send} from './api';
import {parseDuration} from './format';
import type {Command} from './types';
import {Field, tellError} from './ui';

interface Form {
    line: string;
    shell: boolean;
    cwd: string;
    timeout: string;
    stdin: string;
    stdinOpen: boolean;
    checkpoint: boolean;
}

const START: Form = {line: '', shell: true, cwd: '', timeout: '', stdin: '', stdinOpen: false, checkpoint: false};

// Words as a shell splits them, without its expansions.
export function words(line: string): string[] {
    const found: string[] = [];
    for (const m of line.matchAll(/(?:[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*"|\\.)+/g)) {
        found.push(m[0].replace(/'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)/g,
            (_all, single, double, escaped) => single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? escaped));
    }
    return found;
}

function bodyOf(f: Form): unknown {
    const argv = f.shell ? ['/bin/sh', '-c', f.line] : words(f.line);
    return {
        command: argv[0] ?? '', args: argv.slice(1), cwd: f.cwd || null,
        timeoutMs: f.timeout === '' ? null : parseDuration(f.timeout),
        stdin: f.stdin === '' ? null : f.stdin, stdinOpen: f.stdinOpen,
        onLimit: f.checkpoint ? {checkpoint: true} : null,
    };
}

export function RunForm({executionId, onStarted}: {executionId: string; onStarted: (c: Command) => void}) {
    const [form, setForm] = useState(START);
    const [busy, setBusy] = useState(false);
    const submit = async (event: Event) => {
        event.preventDefault();
        setBusy(true);
        try {
            const path = `${pathOf('executions', executionId, 'commands')}?wait=false`;
            onStarted(await send<Command>('POST', path, bodyOf(form)));
        } catch (error) {
            tellError('Run', error);
        }
        setBusy(false);
    };
    const check = (name: 'shell' | 'stdinOpen' | 'checkpoint', label: string) => (
        <label class="check">
            <input type="checkbox" checked={form[name]} onChange={(e) => setForm({...form, [name]: e.currentTarget.checked})} />
            {label}
        </label>
    );
    const text = (name: 'cwd' | 'timeout', label: string, placeholder: string) => (
        <Field label={label}>
            {(props) => <input {...props} value={form[name]} placeholder={placeholder} spellcheck={false}
                onInput={(e) => setForm({...form, [name]: e.currentTarget.value})} />}
        </Field>
    );
    return (
        <form class="card run-form" aria-label="Run a command" onSubmit={submit}>
            <div class="run-line">
                <Field label="Command">
                    {(props) => <input {...props} class="mono" value={form.line} required spellcheck={false} autocomplete="off"
                        placeholder={form.shell ? 'make test | tail' : 'node server.js --port 80'}
                        onInput={(e) => setForm({...form, line: e.currentTarget.value})} />}
                </Field>
                <button class="primary" disabled={busy}>Run</button>
            </div>
            <details>
                <summary>Options</summary>
                <div class="form">
                    {check('shell', 'through /bin/sh -c')}
                    {check('stdinOpen', 'keep standard input open')}
                    {check('checkpoint', 'checkpoint when it hits a limit')}
                    {text('cwd', 'Directory', 'the workspace')}
                    {text('timeout', 'Timeout', 'what is left of the lifetime')}
                    <Field label="Standard input">
                        {(props) => <textarea {...props} rows={2} value={form.stdin} spellcheck={false}
                            onInput={(e) => setForm({...form, stdin: e.currentTarget.value})} />}
                    </Field>
                </div>
            </details>
        </form>
    );
}
