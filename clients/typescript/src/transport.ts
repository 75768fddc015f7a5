import { ExecutionHostError, errorOf } from "./errors.js";

export interface RetryOptions {
  /** How long a call goes on trying once it has begun to fail; 0: never again. Default 60000. */
  budgetMs?: number;
  /** The first pause; each further one is twice as long, up to `maxDelayMs`. Default 100. */
  minDelayMs?: number;
  /** Default 5000. */
  maxDelayMs?: number;
}

export interface TransportOptions {
  /** Where the service listens, like `http://127.0.0.1:8470`. */
  baseUrl: string | URL;
  /** Sent as `Authorization: Bearer`. */
  token?: string;
  retry?: RetryOptions;
  /** Used instead of the global fetch. */
  fetch?: typeof fetch;
}

export interface Request {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  /** JSON text, or bytes. */
  body?: string | Uint8Array;
  headers?: Record<string, string | undefined>;
  /** Gives up waiting; nothing is undone by it. */
  signal?: AbortSignal | undefined;
  /** Lets the present try end, but starts no other. */
  lastTry?: AbortSignal | undefined;
}

const UNREACHABLE = "CLIENT_UNREACHABLE";

export function randomId(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `${prefix}-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Resolves when the time is over; rejects with the signal's reason before that. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = (): void => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** Decides whether to try again, and when. One for each call. */
export class Retries {
  private firstFailure = 0;
  private failures = 0;

  constructor(private readonly options: Required<RetryOptions>) {}

  /** What failed is over and forgotten: progress was made. */
  reset(): void {
    this.failures = 0;
  }

  /** Waits before the next try; throws `error` where there is none. */
  async next(error: unknown, startedAt: number, request: Request): Promise<void> {
    request.signal?.throwIfAborted();
    const now = performance.now();
    // A call that had waited long for its answer begins to fail only now.
    if (this.failures === 0 || now - startedAt > this.options.budgetMs) {
      this.firstFailure = now;
      this.failures = 0;
    }
    const delay = this.delay(error);
    if (!mayRetry(error) || request.lastTry?.aborted || now + delay - this.firstFailure > this.options.budgetMs) {
      throw error;
    }
    this.failures += 1;
    await pause(delay, request.signal ?? request.lastTry);
  }

  private delay(error: unknown): number {
    const longest = Math.min(
      this.options.maxDelayMs,
      this.options.minDelayMs * 2 ** Math.min(this.failures, 20),
    );
    return Math.max(longest * (0.5 + Math.random() / 2), retryAfterMs.get(error as object) ?? 0);
  }
}

/** What `Retry-After` said, by the error it came with. */
const retryAfterMs = new WeakMap<object, number>();

function mayRetry(error: unknown): boolean {
  return error instanceof ExecutionHostError && error.retryable;
}

export class Transport {
  private readonly base: string;
  private readonly token: string | undefined;
  private readonly fetch: typeof fetch;
  private readonly retry: Required<RetryOptions>;

  constructor(options: TransportOptions) {
    this.base = String(options.baseUrl).replace(/\/+$/, "");
    this.token = options.token;
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.retry = { budgetMs: 60000, minDelayMs: 100, maxDelayMs: 5000, ...options.retry };
  }

  retries(): Retries {
    return new Retries(this.retry);
  }

  /** One try: the answer of a success, its body unread. Throws ExecutionHostError. */
  async once(request: Request): Promise<Response> {
    const url = new URL(this.base + request.path);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) {
        url.searchParams.set(name, String(value));
      }
    }
    const headers = new Headers();
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (value !== undefined) {
        headers.set(name, value);
      }
    }
    if (this.token !== undefined) {
      headers.set("Authorization", `Bearer ${this.token}`);
    }
    const { method, signal = null } = request;
    const body = (request.body ?? null) as BodyInit | null;
    const response = await this.guard(request, () =>
      this.fetch(url, { method, headers, body, signal }),
    );
    if (response.ok) {
      return response;
    }
    const error = errorOf(response.status, await this.guard(request, () => response.text()));
    const seconds = Number(response.headers.get("Retry-After") ?? "0");
    retryAfterMs.set(error, Number.isFinite(seconds) ? seconds * 1000 : 0);
    throw error;
  }

  /** Tries until there is an answer that counts; the whole body with it. */
  async text(request: Request): Promise<string> {
    return this.complete(request, (response) => response.text());
  }

  async bytes(request: Request): Promise<Uint8Array> {
    return this.complete(request, async (response) => new Uint8Array(await response.arrayBuffer()));
  }

  async json<T>(request: Request): Promise<T> {
    return JSON.parse(await this.text(request)) as T;
  }

  private async complete<T>(request: Request, read: (response: Response) => Promise<T>): Promise<T> {
    const retries = this.retries();
    for (;;) {
      const startedAt = performance.now();
      try {
        const response = await this.once(request);
        return await this.guard(request, () => read(response));
      } catch (error) {
        await retries.next(error, startedAt, request);
      }
    }
  }

  /** What fetch throws for a connection is an error of ours that may be retried. */
  async guard<T>(request: Request, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      request.signal?.throwIfAborted();
      const detail = `${request.method} ${request.path} got no answer from ${this.base}.`;
      throw new ExecutionHostError({ code: UNREACHABLE, detail, retryable: true }, { cause });
    }
  }
}
