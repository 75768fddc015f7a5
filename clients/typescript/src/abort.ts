import { ExecutionHostError } from "./errors.js";
import { pause } from "./transport.js";

const MISSING = new Set(["COMMAND_NOT_FOUND", "EXECUTION_NOT_FOUND", "PTC_RUN_NOT_FOUND"]);

/**
 * From now until `finish`, an abort of the signal becomes a call of `abort`, again and again until it is
 * told of something that is there: the request that makes it may still be on its way. What is aborted
 * ends by itself, with what became of it.
 */
export class AbortListener {
  private settled = false;
  private aborting: Promise<void> | undefined;
  private failure: { error: unknown } | undefined;

  constructor(
    private readonly signal: AbortSignal | undefined,
    private readonly abort: () => Promise<void>,
  ) {
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this.onAbort, { once: true });
  }

  private readonly onAbort = (): void => {
    this.aborting = abortUntilThere(this.abort, () => this.settled).catch((error: unknown) => {
      this.failure = { error };
    });
  };

  /** Throws what the abort has failed with. */
  async finish(): Promise<void> {
    this.settled = true;
    this.signal?.removeEventListener("abort", this.onAbort);
    await this.aborting;
    if (this.failure) {
      throw this.failure.error;
    }
  }
}

/** `work`, which an abort of the signal ends by `abort`. */
export async function withAbort<T>(
  signal: AbortSignal | undefined,
  abort: () => Promise<void>,
  work: () => Promise<T>,
): Promise<T> {
  const listener = new AbortListener(signal, abort);
  try {
    return await work();
  } finally {
    await listener.finish();
  }
}

async function abortUntilThere(abort: () => Promise<void>, settled: () => boolean): Promise<void> {
  while (!settled()) {
    try {
      return await abort();
    } catch (error) {
      if (!(error instanceof ExecutionHostError && MISSING.has(error.code))) {
        throw error;
      }
    }
    await pause(50);
  }
}

/**
 * For work that has no result once it is aborted: it is undone at once, and again where it had come to
 * its end nevertheless; then this rejects with the signal's reason.
 */
export async function orUndo<T>(
  signal: AbortSignal | undefined,
  undo: { now: boolean; call: () => Promise<void> },
  work: () => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  let undoing: Promise<unknown> = Promise.resolve();
  const onAbort = (): void => {
    undoing = undo.now ? undo.call().catch(() => undefined) : undoing;
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    const result = await work();
    if (!signal?.aborted) {
      return result;
    }
  } catch (error) {
    if (!signal?.aborted) {
      throw error;
    }
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
  await undoing;
  await undo.call();
  throw signal.reason;
}
