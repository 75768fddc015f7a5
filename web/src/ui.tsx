// Parts that pages share.
import type {ComponentChildren, JSX} from 'preact';
import {useEffect, useId, useLayoutEffect, useRef, useState} from 'preact/hooks';

import {ApiError} from './api';
import {errorText} from './hooks';

// --- messages ---

interface Message {
    id: number;
    kind: 'good' | 'bad';
    text: string;
}

let messages: Message[] = [];
let messageId = 0;
const messageListeners = new Set<() => void>();

function setMessages(next: Message[]): void {
    messages = next;
    messageListeners.forEach((l) => l());
}

export function tell(kind: Message['kind'], text: string): void {
    const id = ++messageId;
    setMessages([...messages.slice(-3), {id, kind, text}]);
    setTimeout(() => setMessages(messages.filter((m) => m.id !== id)), kind === 'good' ? 5000 : 12000);
}

export function tellError(what: string, error: unknown): void {
    const code = error instanceof ApiError ? ` (${error.code})` : '';
    tell('bad', `${what}: ${errorText(error)}${code}`);
}

export function Messages() {
    const [, draw] = useState(0);
    useEffect(() => {
        const changed = () => draw((n) => n + 1);
        messageListeners.add(changed);
        return () => void messageListeners.delete(changed);
    }, []);
    return (
        <div class="messages" role="status" aria-live="polite">
            {messages.map((m) => (
                <div key={m.id} class={`message ${m.kind}`}>
                    <span>{m.text}</span>
                    <button class="quiet" aria-label="Dismiss"
                        onClick={() => setMessages(messages.filter((o) => o.id !== m.id))}>×</button>
                </div>
            ))}
        </div>
    );
}

// --- small things ---

const TONES: Record<string, string> = {
    provisioned: 'good', running: 'good', durable: 'good', completed: 'good', available: 'good',
    provisioning: 'busy', queued: 'busy', starting: 'busy', uploading: 'busy', terminating: 'busy',
    pending: 'busy', failed: 'bad', unavailable: 'bad', exception: 'bad', timeout: 'bad',
};

export function Pill({state, tone}: {state: string; tone?: string}) {
    return <span class={`pill ${tone ?? TONES[state] ?? 'calm'}`}>{state}</span>;
}

export interface BarProps {
    label: string;
    used: number | null;
    limit: number;
    text: string;
    compact?: boolean;
}

// Use against a limit. What is not known is said, not drawn as zero.
export function Bar({label, used, limit, text, compact}: BarProps) {
    const share = used === null || !(limit > 0) ? 0 : Math.max(0, Math.min(1, used / limit));
    const tone = share > 0.9 ? 'full' : share > 0.7 ? 'high' : '';
    return (
        <div class={`bar ${compact ? 'compact' : ''}`}>
            {!compact && <span class="bar-label">{label}</span>}
            <div class={`track ${used === null ? 'unknown' : tone}`} role="meter" aria-label={label}
                aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)}
                aria-valuetext={text}>
                <div style={{width: `${share * 100}%`}} />
            </div>
            <span class="bar-text">{text}</span>
        </div>
    );
}

export function Problem({error, retry}: {error: ApiError; retry?: () => void}) {
    return (
        <div class="problem" role="alert">
            <strong>{error.code}</strong> {error.message}
            {retry && <button onClick={retry}>Try again</button>}
        </div>
    );
}

export function Empty({children}: {children: ComponentChildren}) {
    return <p class="empty">{children}</p>;
}

export function Tabs({label, tabs, current}: {
    label: string; tabs: {name: string; href: string; count?: number | string}[]; current: string;
}) {
    return (
        <nav class="tabs" aria-label={label}>
            {tabs.map((t) => (
                <a key={t.name} href={t.href} aria-current={t.name === current ? 'page' : undefined}>{t.name}</a>
            ))}
        </nav>
    );
}

export function Field({label, hint, error, children}: {
    label: string; hint?: string; error?: string | null;
    children: (props: {id: string; 'aria-describedby'?: string; 'aria-invalid'?: boolean}) => JSX.Element;
}) {
    const id = useId();
    const note = error ?? hint;
    return (
        <div class={`field ${error ? 'wrong' : ''}`}>
            <label for={id}>{label}</label>
            {children({id, 'aria-describedby': note ? `${id}-note` : undefined, 'aria-invalid': error ? true : undefined})}
            {note && <span class="note" id={`${id}-note`}>{note}</span>}
        </div>
    );
}

export function Facts({items}: {items: [string, ComponentChildren][]}) {
    return (
        <dl class="facts">
            {items.map(([name, value]) => (
                <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
            ))}
        </dl>
    );
}

// A button that can't be pressed again while what it does goes on.
export function Action({onAct, what, class: kind, disabled, title, children}: {
    onAct: () => Promise<unknown>; what: string; class?: string; disabled?: boolean; title?: string;
    children: ComponentChildren;
}) {
    const [busy, setBusy] = useState(false);
    const act = async () => {
        setBusy(true);
        try {
            await onAct();
        } catch (error) {
            tellError(what, error);
        } finally {
            setBusy(false);
        }
    };
    return (
        <button type="button" class={kind} disabled={disabled} title={title} aria-busy={busy}
            onClick={() => !busy && void act()}>
            {children}{busy ? '…' : ''}
        </button>
    );
}

// --- dialogs ---

export function Dialog({title, onClose, children}: {
    title: string; onClose: () => void; children: ComponentChildren;
}) {
    const ref = useRef<HTMLDialogElement>(null);
    const id = useId();
    useLayoutEffect(() => {
        const dialog = ref.current!;
        dialog.showModal();
        return () => dialog.close();
    }, []);
    return (
        <dialog ref={ref} aria-labelledby={id} onCancel={(e) => {
            e.preventDefault();
            onClose();
        }}>
            <div class="dialog-head">
                <h2 id={id}>{title}</h2>
                <button type="button" class="quiet" aria-label="Close" onClick={onClose}>×</button>
            </div>
            {children}
        </dialog>
    );
}

export function Confirm({title, text, verb, choice, onConfirm, onClose}: {
    title: string; text: string; verb: string; choice?: string;
    onConfirm: (chosen: boolean) => Promise<unknown>; onClose: () => void;
}) {
    const [chosen, setChosen] = useState(false);
    return (
        <Dialog title={title} onClose={onClose}>
            <p>{text}</p>
            {choice !== undefined && (
                <label class="check">
                    <input type="checkbox" checked={chosen} onChange={(e) => setChosen(e.currentTarget.checked)} />
                    {choice}
                </label>
            )}
            <div class="actions">
                <button type="button" onClick={onClose}>Cancel</button>
                <Action class="danger" what={title} onAct={async () => {
                    await onConfirm(chosen);
                    onClose();
                }}>{verb}</Action>
            </div>
        </Dialog>
    );
}

// --- long lists ---

export interface VirtualProps {
    count: number;
    rowHeight: number;
    row: (index: number) => JSX.Element;
    label: string;
    role?: 'rowgroup' | 'log' | 'list';
    class?: string;
    onNearEnd?: () => void;
    stickToEnd?: boolean;
    onLeaveEnd?: () => void;
    show?: {index: number}; // scrolls there whenever the object is another one
}

const OVERSCAN = 8;

// Draws what can be seen of many rows of one height.
export function Virtual(p: VirtualProps) {
    const ref = useRef<HTMLDivElement>(null);
    const lastTop = useRef(0);
    const [view, setView] = useState({top: 0, height: 800});
    const measure = () => {
        const el = ref.current;
        if (el !== null) {
            setView((v) => (v.top === el.scrollTop && v.height === el.clientHeight ? v
                : {top: el.scrollTop, height: el.clientHeight}));
        }
    };
    useLayoutEffect(() => {
        const seen = new ResizeObserver(measure);
        seen.observe(ref.current!);
        measure();
        return () => seen.disconnect();
    }, []);
    useLayoutEffect(() => {
        const el = ref.current!;
        if (p.stickToEnd) {
            el.scrollTop = el.scrollHeight;
            measure();
        }
    }, [p.count, p.stickToEnd, view.height]);
    useLayoutEffect(() => {
        const el = ref.current!;
        if (p.show !== undefined) {
            const top = p.show.index * p.rowHeight;
            if (top < el.scrollTop || top + p.rowHeight > el.scrollTop + el.clientHeight) {
                el.scrollTop = top - el.clientHeight / 2;
            }
            measure();
        }
    }, [p.show]);
    const first = Math.max(0, Math.floor(view.top / p.rowHeight) - OVERSCAN);
    const last = Math.min(p.count, Math.ceil((view.top + view.height) / p.rowHeight) + OVERSCAN);
    useEffect(() => {
        if (last >= p.count - 2 * OVERSCAN) {
            p.onNearEnd?.();
        }
    }, [last, p.count]);
    const rows: JSX.Element[] = [];
    for (let i = first; i < last; i++) {
        rows.push(p.row(i));
    }
    return (
        <div ref={ref} class={`virtual ${p.class ?? ''}`} tabIndex={0} role={p.role} aria-label={p.label}
            onScroll={() => {
                const el = ref.current!;
                // What grows leaves the end behind too, but never goes up.
                const up = el.scrollTop < lastTop.current;
                lastTop.current = el.scrollTop;
                if (p.stickToEnd && up && el.scrollTop + el.clientHeight < el.scrollHeight - p.rowHeight) {
                    p.onLeaveEnd?.();
                }
                measure();
            }}>
            <div class="virtual-all" role="presentation" style={{height: `${p.count * p.rowHeight}px`}}>
                <div class="virtual-seen" role="presentation" style={{transform: `translateY(${first * p.rowHeight}px)`}}>{rows}</div>
            </div>
        </div>
    );
}

export function useMedia(text: string): boolean {
    const [matches, setMatches] = useState(() => matchMedia(text).matches);
    useEffect(() => {
        const list = matchMedia(text);
        const changed = () => setMatches(list.matches);
        list.addEventListener('change', changed);
        return () => list.removeEventListener('change', changed);
    }, [text]);
    return matches;
}
