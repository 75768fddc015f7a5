// The one stream of changes that the whole page follows. What shows a resource asks for it anew when
// the stream opens, has a gap, or tells of it.
import {follow, StreamEvent} from './stream';

export interface Change extends StreamEvent {
    executionId?: string;
    incarnation?: number;
    commandId?: string;
    checkpointId?: string;
    runId?: string;
    state?: string;
    host?: string;
    expiresAt?: string | null;
    reason?: string | null;
    exitCode?: number | null;
    outcome?: string | null;
}

export type LiveState = 'connecting' | 'open' | 'lost' | 'refused';

// null: anything may have changed.
type Listener = (change: Change | null) => void;

const listeners = new Set<Listener>();
const stateListeners = new Set<(state: LiveState) => void>();
let state: LiveState = 'connecting';
let current: AbortController | null = null;

function setState(next: LiveState): void {
    if (state !== next) {
        state = next;
        stateListeners.forEach((l) => l(next));
    }
}

function tell(change: Change | null): void {
    [...listeners].forEach((l) => l(change));
}

export function liveState(): LiveState {
    return state;
}

export function onLiveState(listener: (state: LiveState) => void): () => void {
    stateListeners.add(listener);
    return () => stateListeners.delete(listener);
}

export function onChange(listener: Listener): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

// Begins anew, as whoever asks now.
export function startLive(): void {
    current?.abort();
    const mine = new AbortController();
    current = mine;
    setState('connecting');
    void follow<Change>({
        path: '/v1/events',
        after: 'latest',
        signal: mine.signal,
        isLast: () => false,
        onEvent: (event) => tell(event.type === 'gap' ? null : event),
        onOpen: () => {
            setState('open');
            tell(null);
        },
        onLost: () => setState('lost'),
        onRefused: () => setState('refused'),
    });
}
