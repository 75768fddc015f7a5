import { withAbort } from "./abort.js";
import { ExecutionHostError } from "./errors.js";
import { losslessStringify } from "./json.js";
import { followEvents } from "./lines.js";
import type { Binding, BindingErrorClass } from "./types.js";
import type { RunCreate, RunEventCall, RunResult } from "./schema.js";
import type { RunEvent } from "./types.js";
import { randomId, type Request, type Transport } from "./transport.js";

export interface ToolContext {
  readonly runId: string;
  readonly callId: number;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/**
 * Answers a call of the program. What it returns, or resolves to, has to be lossless JSON or undefined
 * ("no value"); what it throws makes the call throw in the program, with the same message.
 */
export type Tool = (argument: any, context: ToolContext) => unknown;

/** By the name of a namespace in the program, then by the name of a function in it. */
export type Tools = Readonly<Record<string, Readonly<Record<string, Tool>>>>;

export interface Program extends Omit<RunCreate, "bindings" | "description"> {
  /** Default: "program". */
  description?: string;
  tools?: Tools;
  /** The class of the errors that a namespace's calls throw, by the namespace's name. */
  errorClasses?: Readonly<Record<string, BindingErrorClass>>;
}

export interface ProgramOptions {
  /** Aborts the run, whose result then is an error of the kind `abort`. */
  signal?: AbortSignal;
  /** Each entry of the log as it comes. */
  onLog?: (text: string) => void;
  idempotencyKey?: string;
}

export type ProgramResult = RunResult & { runId: string };

/** What an answer may fail with when nobody waits for it any more. */
const TOO_LATE = new Set([
  "PTC_CALL_SETTLED",
  "PTC_RUN_SETTLED",
  "PTC_CALL_NOT_FOUND",
  "PTC_RUN_NOT_FOUND",
]);

function bindingsOf(program: Program): Binding[] {
  return Object.entries(program.tools ?? {}).map(([global, functions]) => {
    const binding: Binding = { global, functions: Object.keys(functions) };
    const errorClass = program.errorClasses?.[global];
    return errorClass ? { ...binding, errorClass } : binding;
  });
}

function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return "the tool threw what can't be shown";
  }
}

/** Serves one run: its events in, the answers to its calls out. */
class Server {
  private readonly calls = new Map<number, AbortController>();
  private failed: { error: unknown } | undefined;
  private readonly broken = new AbortController();

  constructor(
    private readonly transport: Transport,
    private readonly runId: string,
    private readonly program: Program,
    private readonly options: ProgramOptions,
  ) {}

  async serve(first: Request): Promise<ProgramResult> {
    const { runId } = this;
    const path = `${pathOf(runId)}/events`;
    const signal = this.broken.signal;
    const headers = { Accept: "application/x-ndjson" };
    const resume = (after: number): Request => ({
      ...{ method: "GET", path, headers, signal },
      query: { after: after < 0 ? undefined : after },
    });
    const source = { first: { ...first, signal }, resume, last: "result", after: -1 };
    try {
      for await (const event of followEvents<RunEvent>(this.transport, source)) {
        if (event.type === "result") {
          return { runId, ...event.result };
        }
        this.take(event);
      }
    } catch (error) {
      await abortRun(this.transport, runId, "the client failed").catch(() => undefined);
      throw this.failed ? this.failed.error : error;
    } finally {
      this.calls.forEach((call) => call.abort(new Error("the run is over")));
    }
    throw new ExecutionHostError({ code: "CLIENT_PROTOCOL", detail: "A run had no result." });
  }

  private take(event: RunEvent): void {
    if (event.type === "log") {
      this.options.onLog?.(event.text);
    } else if (event.type === "call-settled") {
      this.calls.get(event.callId)?.abort(new Error(`the call is ${event.state}`));
      this.calls.delete(event.callId);
    } else if (event.type === "call") {
      this.answer(event).catch((error: unknown) => {
        this.failed = { error };
        this.broken.abort(error);
      });
    }
  }

  private async answer(event: RunEventCall): Promise<void> {
    const controller = new AbortController();
    this.calls.set(event.callId, controller);
    const context = { runId: this.runId, callId: event.callId, signal: controller.signal };
    const body = await this.answerText(event, context);
    try {
      await this.post(event.callId, body);
    } catch (error) {
      if (!(error instanceof ExecutionHostError)) {
        throw error;
      }
      if (error.code === "PAYLOAD_TOO_LARGE" || error.code === "PTC_INVALID_REQUEST") {
        await this.post(event.callId, refusal(error.message)).catch(ignoreLate);
      } else {
        ignoreLate(error);
      }
    }
  }

  private async answerText(event: RunEventCall, context: ToolContext): Promise<string> {
    try {
      const functions = this.program.tools?.[event.global] ?? {};
      if (!Object.hasOwn(functions, event.function)) {
        throw new Error(`${event.global} has no tool ${event.function}`);
      }
      const value = await functions[event.function]!(event.argument, context);
      return value === undefined ? '{"ok":true}' : `{"ok":true,"value":${losslessStringify(value)}}`;
    } catch (error) {
      return refusal(messageOf(error));
    }
  }

  private async post(callId: number, body: string): Promise<void> {
    const path = `${pathOf(this.runId)}/calls/${callId}`;
    const headers = { "Content-Type": "application/json" };
    await this.transport.text({ method: "POST", path, body, headers });
  }
}

function refusal(message: string): string {
  return JSON.stringify({ ok: false, message });
}

function ignoreLate(error: unknown): void {
  if (!(error instanceof ExecutionHostError && TOO_LATE.has(error.code))) {
    throw error;
  }
}

function pathOf(runId: string): string {
  return `/v1/ptc/runs/${encodeURIComponent(runId)}`;
}

async function abortRun(transport: Transport, runId: string, reason: string): Promise<void> {
  await transport.text({ method: "DELETE", path: pathOf(runId), query: { reason } });
}

/** Runs a program to its end and answers its calls meanwhile, several at once. */
export async function runProgram(
  transport: Transport,
  program: Program,
  options: ProgramOptions,
): Promise<ProgramResult> {
  const { tools: _tools, errorClasses: _errorClasses, ...rest } = program;
  const runId = program.runId ?? randomId("run");
  const request = { description: "program", ...rest, runId, bindings: bindingsOf(program) };
  const server = new Server(transport, runId, program, options);
  const first: Request = {
    method: "POST",
    path: "/v1/ptc/runs",
    body: losslessStringify(withoutUndefined(request)),
    headers: {
      "Content-Type": "application/json",
      Accept: "application/x-ndjson",
      "Idempotency-Key": options.idempotencyKey ?? randomId("key"),
    },
  };
  const reason = (): string => messageOf(options.signal?.reason);
  return withAbort(
    options.signal,
    () => abortRun(transport, runId, reason()),
    () => server.serve(first),
  );
}

function withoutUndefined(value: object): object {
  return JSON.parse(JSON.stringify(value)) as object;
}
