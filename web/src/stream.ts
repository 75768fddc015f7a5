// Streams of lines of JSON that go on where they were cut: after a lost connection or a restart of the
// service they ask for what is behind the last event seen. fetch rather than EventSource, which can't
// send a token.
import {ApiError, authorization, problemOf, refused} from './api';

const QUIET_MS = 45000; // three heartbeats
const RETRY_MIN_MS = 300;
const RETRY_MAX_MS = 5000;

export interface StreamEvent {
    seq: number;
    type: string;
    at: string;
}

export interface Follow<E extends StreamEvent> {
    path: string;
    // What the first request asks for; null: everything.
    after: string | null;
    onEvent: (event: E, line: string) => void;
    // True for the event behind which nothing comes.
    isLast: (event: E) => boolean;
    onOpen?: () => void;
    onLost?: () => void;
    // The service answers, but not with a stream; following ends.
    onRefused?: (error: ApiError) => void;
    signal: AbortSignal;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        signal.addEventListener('abort', () => {
            clearTimeout(timer);
            resolve();
        }, {once: true});
    });
}

async function* linesOf(response: Response, alive: () => void): AsyncGenerator<string> {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let pieces: string[] = [];
    for (;;) {
        const {done, value} = await reader.read();
        if (done) {
            return;
        }
        alive();
        let from = 0;
        for (let end = value.indexOf('\n'); end >= 0; end = value.indexOf('\n', from)) {
            pieces.push(value.slice(from, end));
            yield pieces.join('');
            pieces = [];
            from = end + 1;
        }
        pieces.push(value.slice(from));
    }
}

// One connection. True when the last event was seen.
async function readOnce<E extends StreamEvent>(
    f: Follow<E>, place: {after: string | null}, opened: () => void): Promise<boolean> {
    const cut = new AbortController();
    const stop = () => cut.abort();
    f.signal.addEventListener('abort', stop);
    let watchdog = setTimeout(stop, QUIET_MS);
    const alive = () => {
        clearTimeout(watchdog);
        watchdog = setTimeout(stop, QUIET_MS);
    };
    try {
        const sep = f.path.includes('?') ? '&' : '?';
        const path = place.after === null ? f.path : `${f.path}${sep}after=${place.after}`;
        const response = await fetch(path, {
            headers: {...authorization(), Accept: 'application/x-ndjson'},
            cache: 'no-store',
            signal: cut.signal,
        });
        if (!response.ok) {
            const error = problemOf(response.status, await response.text().catch(() => ''));
            if (response.status === 401) {
                refused(error);
            }
            throw error;
        }
        opened();
        for await (const line of linesOf(response, alive)) {
            if (f.signal.aborted) {
                return true;
            }
            const event = JSON.parse(line) as E;
            if (event.type === 'ping') {
                continue;
            }
            place.after = String(event.seq);
            f.onEvent(event, line);
            if (f.isLast(event)) {
                return true;
            }
        }
        return false;
    } finally {
        clearTimeout(watchdog);
        f.signal.removeEventListener('abort', stop);
        cut.abort();
    }
}

function isFinal(error: unknown): error is ApiError {
    return error instanceof ApiError && error.status > 0 && error.status < 500 && error.status !== 429;
}

// Ends with the last event, a refusal or the signal.
export async function follow<E extends StreamEvent>(f: Follow<E>): Promise<void> {
    const place = {after: f.after};
    let wait = RETRY_MIN_MS;
    while (!f.signal.aborted) {
        try {
            const over = await readOnce(f, place, () => {
                wait = RETRY_MIN_MS;
                f.onOpen?.();
            });
            if (over) {
                return;
            }
        } catch (error) {
            if (f.signal.aborted) {
                return;
            }
            if (isFinal(error)) {
                f.onRefused?.(error);
                return;
            }
        }
        f.onLost?.();
        await pause(wait, f.signal);
        wait = Math.min(wait * 2, RETRY_MAX_MS);
    }
}
