import {useCallback, useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';

import {ApiError, getJson, query} from './api';
import {Change, onChange} from './live';
import type {Page} from './types';

export function errorText(error: unknown): string {
    return error instanceof Error ? error.message : String(error);
}

// --- the address ---

export interface Place {
    parts: string[];
    params: URLSearchParams;
}

export function placeOf(hash: string): Place {
    const [path, search] = hash.replace(/^#\/?/, '').split('?');
    const parts = path.split('/').filter((p) => p !== '');
    try {
        return {parts: parts.map(decodeURIComponent), params: new URLSearchParams(search ?? '')};
    } catch {
        return {parts: [], params: new URLSearchParams()};
    }
}

export function hrefOf(parts: string[], params: Record<string, string | undefined> = {}): string {
    return `#/${parts.map(encodeURIComponent).join('/')}${query(params)}`;
}

export function go(parts: string[], params: Record<string, string | undefined> = {}): void {
    location.hash = hrefOf(parts, params);
}

export function usePlace(): Place {
    const [place, setPlace] = useState(() => placeOf(location.hash));
    useEffect(() => {
        const changed = () => setPlace(placeOf(location.hash));
        addEventListener('hashchange', changed);
        return () => removeEventListener('hashchange', changed);
    }, []);
    return place;
}

// --- time ---

export function useNow(everyMs = 1000): number {
    const [now, setNow] = useState(Date.now());
    useEffect(() => {
        const timer = setInterval(() => setNow(Date.now()), everyMs);
        return () => clearInterval(timer);
    }, [everyMs]);
    return now;
}

// --- resources ---

export interface Loaded<T> {
    data: T | null;
    error: ApiError | null;
    reload: () => void;
}

// One resource, asked for again when `concerns` says so of a change (always when anything may have
// changed). Changes that come while it is asked for make one more request, not many.
export function useResource<T>(
    path: string | null, concerns: (change: Change) => boolean = () => false): Loaded<T> {
    const [state, setState] = useState<{path: string | null; data: T | null; error: ApiError | null}>(
        {path, data: null, error: null});
    const wanted = useRef({busy: false, again: false, path});
    wanted.current.path = path;

    const reload = useCallback(() => {
        const w = wanted.current;
        if (w.path === null) {
            return;
        }
        if (w.busy) {
            w.again = true;
            return;
        }
        w.busy = true;
        w.again = false;
        const asked = w.path;
        const settle = (data: T | null, error: ApiError | null) => {
            w.busy = false;
            if (w.path === asked) {
                setState((old) => ({path: asked, error,
                    data: data ?? (error?.status === 404 || old.path !== asked ? null : old.data)}));
            }
            if (w.again || w.path !== asked) {
                reload();
            }
        };
        getJson<T>(asked).then((data) => settle(data, null), (error) => settle(null, error));
    }, []);

    const test = useRef(concerns);
    test.current = concerns;
    useEffect(() => {
        reload();
    }, [path]);
    useEffect(() => onChange((change) => {
        if (change === null || test.current(change)) {
            reload();
        }
    }), []);
    return state.path === path ? {data: state.data, error: state.error, reload}
        : {data: null, error: null, reload};
}

export interface Paged<T> {
    items: T[];
    loaded: boolean; // the first page has been seen
    more: boolean;
    busy: boolean;
    error: ApiError | null;
    loadMore: () => void;
    reload: () => void;
    update: (change: (items: T[]) => T[]) => void;
}

// A list by pages. `reload` looks at its head: new items are put on top, known ones replaced.
export function usePaged<T>(path: string, params: Record<string, string | undefined>,
    keyOf: (item: T) => string, limit = 50): Paged<T> {
    const base = path + query({...params, limit});
    const empty = {base, items: [] as T[], cursor: null as string | null, loaded: false, busy: false,
        error: null as ApiError | null};
    const [state, setState] = useState(empty);
    const now = useRef(state);
    const set = (change: Partial<typeof empty>) => {
        now.current = {...now.current, ...change};
        setState(now.current);
    };
    // What was asked for while a request was under way.
    const again = useRef({head: false, more: false});

    const ask = async (head: boolean) => {
        const mine = now.current;
        if (mine.busy) {
            again.current[head ? 'head' : 'more'] = true;
            return;
        }
        set({busy: true});
        const {base: asked} = mine;
        try {
            const cursor = head ? null : mine.cursor;
            const page = await getJson<Page<T>>(asked + (cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`));
            if (now.current.base !== asked) {
                return;
            }
            set({...merge(now.current, page, head, keyOf), loaded: true, busy: false, error: null});
        } catch (error) {
            if (now.current.base !== asked) {
                return;
            }
            set({busy: false, error: error as ApiError});
        }
        const {head: headToo, more: moreToo} = again.current;
        again.current = {head: false, more: moreToo && headToo};
        if (headToo) {
            void ask(true);
        } else if (moreToo && now.current.cursor !== null) {
            void ask(false);
        }
    };

    useLayoutEffect(() => {
        if (now.current.base !== base || !now.current.loaded) {
            again.current = {head: false, more: false};
            set({...empty, busy: false});
            void ask(true);
        }
    }, [base]);
    const fresh = state.base === base ? state : empty;
    return {
        items: fresh.items,
        loaded: fresh.loaded,
        more: fresh.cursor !== null,
        busy: fresh.busy,
        error: fresh.error,
        loadMore: () => {
            if (now.current.cursor !== null) {
                void ask(false);
            }
        },
        reload: () => void ask(true),
        update: (change) => set({items: change(now.current.items)}),
    };
}

function merge<T>(old: {items: T[]; cursor: string | null; loaded: boolean}, page: Page<T>,
    head: boolean, keyOf: (item: T) => string): {items: T[]; cursor: string | null} {
    if (!old.loaded) {
        return {items: page.items, cursor: page.nextCursor};
    }
    const known = new Map(old.items.map((item) => [keyOf(item), item]));
    if (!head) {
        return {items: old.items.concat(page.items.filter((item) => !known.has(keyOf(item)))),
            cursor: page.nextCursor};
    }
    const touches = page.items.some((item) => known.has(keyOf(item)));
    // Too much is new, or all there is fits: the list begins anew.
    if (!touches || page.nextCursor === null) {
        return {items: page.items, cursor: page.nextCursor};
    }
    const seen = new Set(page.items.map(keyOf));
    return {items: page.items.concat(old.items.filter((item) => !seen.has(keyOf(item)))),
        cursor: old.cursor};
}

// Calls `then` for each change that concerns, at most every `everyMs`.
export function useChanges(concerns: (change: Change) => boolean, then: () => void, everyMs = 150): void {
    const latest = useRef({concerns, then});
    latest.current = {concerns, then};
    useEffect(() => {
        let timer: ReturnType<typeof setTimeout> | null = null;
        const off = onChange((change) => {
            if ((change === null || latest.current.concerns(change)) && timer === null) {
                timer = setTimeout(() => {
                    timer = null;
                    latest.current.then();
                }, everyMs);
            }
        });
        return () => {
            off();
            if (timer !== null) {
                clearTimeout(timer);
            }
        };
    }, []);
}
