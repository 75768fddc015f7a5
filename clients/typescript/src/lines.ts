import { ExecutionHostError } from "./errors.js";
import type { Request, Transport } from "./transport.js";

/** An event of any stream: numbered, but for the signs of life. */
export interface Numbered {
  seq: number;
  type: string;
}

/** The lines of a body of JSON lines; throws ExecutionHostError where the connection breaks. */
async function* linesOf(transport: Transport, request: Request, body: ReadableStream<Uint8Array>) {
  const reader = body.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest: string[] = [];
  try {
    for (;;) {
      const { done, value } = await transport.guard(request, () => reader.read());
      if (done) {
        return; // half a line behind the last end was cut, and comes again
      }
      const pieces = decoder.decode(value, { stream: true }).split("\n");
      for (const piece of pieces.slice(0, -1)) {
        yield [...rest, piece].join("");
        rest = [];
      }
      rest.push(pieces.at(-1)!);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export interface EventSource {
  /** The request that starts the stream from its first event. */
  first: Request;
  /** The request that goes on behind `after`; -1: from the first. */
  resume: (after: number) => Request;
  /** The type of the event that ends it. */
  last: string;
  /** Where to begin: behind this one. */
  after: number;
}

/**
 * The events of a stream, each once and in order, through cuts of the connection and restarts of the
 * service; ends behind the last one. What stops it is an answer that no retry changes.
 */
export async function* followEvents<E extends Numbered>(
  transport: Transport,
  source: EventSource,
): AsyncGenerator<E, void, undefined> {
  const retries = transport.retries();
  let after = source.after;
  let request = source.first;
  for (;;) {
    const startedAt = performance.now();
    try {
      const response = await transport.once(request);
      request = source.resume(after);
      if (response.body) {
        for await (const line of linesOf(transport, request, response.body)) {
          const event = JSON.parse(line) as E;
          if (event.seq === undefined || event.seq <= after) {
            continue;
          }
          if (event.seq !== after + 1) {
            throw protocol(`event ${event.seq} came behind ${after}`);
          }
          retries.reset();
          after = event.seq;
          yield event;
          if (event.type === source.last) {
            return;
          }
          request = source.resume(after);
        }
      }
      throw cut();
    } catch (error) {
      await retries.next(error, startedAt, request);
    }
  }
}

function cut(): ExecutionHostError {
  const detail = "The stream ended before its last event.";
  return new ExecutionHostError({ code: "CLIENT_UNREACHABLE", detail, retryable: true });
}

function protocol(what: string): ExecutionHostError {
  return new ExecutionHostError({ code: "CLIENT_PROTOCOL", detail: `In a stream ${what}.` });
}
