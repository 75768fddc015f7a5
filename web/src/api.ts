// Requests to the service, and who asks. Every answer of an error is an ApiError; where nothing answers
// its status is 0.

const TOKEN_KEY = 'exechost.token';

export class ApiError extends Error {
    constructor(
        readonly status: number,
        readonly code: string,
        detail: string,
        readonly field: string | null,
        readonly requestId: string | null,
    ) {
        super(detail);
    }
}

export interface Call {
    json?: unknown;
    // JSON that is text already.
    text?: string;
    headers?: Record<string, string>;
    signal?: AbortSignal;
}

let token = sessionStorage.getItem(TOKEN_KEY) ?? '';
const refusedListeners = new Set<(error: ApiError) => void>();

export function hasToken(): boolean {
    return token !== '';
}

// "" forgets it. It is kept for this tab only.
export function setToken(value: string): void {
    token = value;
    if (value === '') {
        sessionStorage.removeItem(TOKEN_KEY);
    } else {
        sessionStorage.setItem(TOKEN_KEY, value);
    }
}

export function authorization(): Record<string, string> {
    return token === '' ? {} : {Authorization: `Bearer ${token}`};
}

// Called when the service does not know who asks.
export function onRefused(listener: (error: ApiError) => void): () => void {
    refusedListeners.add(listener);
    return () => refusedListeners.delete(listener);
}

export function problemOf(status: number, text: string): ApiError {
    try {
        const p = JSON.parse(text);
        if (typeof p.code === 'string') {
            return new ApiError(status, p.code, p.detail ?? p.title, p.field ?? null, p.requestId ?? null);
        }
    } catch {
        // Not a problem document: what is said below.
    }
    return new ApiError(status, `HTTP_${status}`, `the service answered ${status}`, null, null);
}

export function refused(error: ApiError): void {
    for (const listener of refusedListeners) {
        listener(error);
    }
}

export async function request(method: string, path: string, call: Call = {}): Promise<Response> {
    const body = call.text ?? (call.json === undefined ? undefined : JSON.stringify(call.json));
    const type = body === undefined ? undefined : {'Content-Type': 'application/json'};
    const headers: Record<string, string> = {...authorization(), ...type, ...call.headers};
    let response: Response;
    try {
        response = await fetch(path, {method, headers, body, signal: call.signal, cache: 'no-store'});
    } catch (error) {
        if (call.signal?.aborted) {
            throw error;
        }
        throw new ApiError(0, 'UNREACHABLE', 'the service does not answer', null, null);
    }
    if (!response.ok) {
        const problem = problemOf(response.status, await response.text().catch(() => ''));
        if (response.status === 401) {
            refused(problem);
        }
        throw problem;
    }
    return response;
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await request('GET', path, {signal})).json();
}

export async function send<T = void>(method: string, path: string, json?: unknown): Promise<T> {
    const response = await request(method, path, {json});
    return (response.status === 204 ? undefined : await response.json()) as T;
}

// An upload with its progress, which fetch can't tell; the answer's text.
export function upload(method: string, path: string, body: Blob, progress: (sent: number) => void,
    type = 'application/octet-stream'): Promise<string> {
    return new Promise((resolve, reject) => {
        const x = new XMLHttpRequest();
        x.open(method, path);
        for (const [name, value] of Object.entries(authorization())) {
            x.setRequestHeader(name, value);
        }
        x.setRequestHeader('Content-Type', type);
        x.upload.onprogress = (event) => progress(event.loaded);
        x.onload = () =>
            (x.status < 300 ? resolve(x.responseText) : reject(problemOf(x.status, x.responseText)));
        x.onerror = () =>
            reject(new ApiError(0, 'UNREACHABLE', 'the service does not answer', null, null));
        x.send(body);
    });
}

// Saves what a GET answers as a file of that name.
export async function download(path: string, name: string): Promise<void> {
    const blob = await (await request('GET', path)).blob();
    const url = URL.createObjectURL(blob);
    const link = document.createElement('a');
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
}

export function pathOf(...parts: string[]): string {
    return '/v1/' + parts.map(encodeURIComponent).join('/');
}

export function query(values: Record<string, string | number | boolean | null | undefined>): string {
    const q = new URLSearchParams();
    for (const [name, value] of Object.entries(values)) {
        if (value !== null && value !== undefined && value !== '') {
            q.set(name, String(value));
        }
    }
    const text = q.toString();
    return text === '' ? '' : `?${text}`;
}
