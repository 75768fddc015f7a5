import { AbortListener, orUndo, withAbort } from "./abort.js";
import { followEvents } from "./lines.js";
import { runProgram, type Program, type ProgramOptions, type ProgramResult } from "./program.js";
import type * as schema from "./schema.js";
import type { CommandEvent } from "./types.js";
import { randomId, Transport, type Request, type TransportOptions } from "./transport.js";

export interface HostOptions extends TransportOptions {
  /** Goes with every mutation that names no other; see `Fencing-Token`. */
  fencingToken?: number;
}

export interface CallOptions {
  signal?: AbortSignal;
  fencingToken?: number;
  /** A key of the caller's own, so that the call can be made again by another process. */
  idempotencyKey?: string;
}

export type FollowOptions = { after?: number; signal?: AbortSignal };

const JSON_TYPE = { "Content-Type": "application/json" };

function executionPath(executionId: string): string {
  return `/v1/executions/${encodeURIComponent(executionId)}`;
}

function commandPath(executionId: string, commandId: string): string {
  return `${executionPath(executionId)}/commands/${encodeURIComponent(commandId)}`;
}

/**
 * The execution host's operations over HTTP. Requests, results and codes are those of the service;
 * what it refuses is thrown as ExecutionHostError. Calls that lost their answer are made again under
 * the same idempotency key, so that nothing runs twice. An object may be used by many calls at once.
 */
export class HttpExecutionHost {
  /** For the calls that have no method here. */
  readonly transport: Transport;

  constructor(private readonly options: HostOptions) {
    this.transport = new Transport(options);
  }

  /* --- the operations --- */

  /** An abort terminates what was being made and rejects with the signal's reason. */
  async provision(
    request: schema.ExecutionCreate,
    options: CallOptions = {},
  ): Promise<schema.Execution> {
    const executionId = request.executionId ?? randomId("exec");
    const undo = { now: true, call: () => this.terminate(executionId, fencingOf(options)) };
    return orUndo(options.signal, undo, () =>
      this.post("/v1/executions", { ...request, executionId }, options),
    );
  }

  /**
   * Runs a program to its end. How it ended is a result: a non-zero exit, a timeout, an overflow are
   * in `termination`, and so is an abort of the signal, which destroys the whole execution.
   */
  async exec(
    executionId: string,
    request: schema.CommandCreate,
    options: CallOptions = {},
  ): Promise<schema.Command> {
    const commandId = request.commandId ?? randomId("cmd");
    return withAbort(
      options.signal,
      () => this.abort(executionId, commandId, fencingOf(options)),
      () => this.post(`${executionPath(executionId)}/commands`, { ...request, commandId }, options),
    );
  }

  /**
   * The same as a stream: starts with the iteration and yields every event once, through cuts and
   * restarts of the service; the last is `exit`. Leaving the loop early leaves the command running;
   * an abort of the signal ends it, and the stream with it.
   */
  async *execStream(
    executionId: string,
    request: schema.CommandCreate,
    options: CallOptions = {},
  ): AsyncGenerator<CommandEvent, void, undefined> {
    const commandId = request.commandId ?? randomId("cmd");
    const path = `${executionPath(executionId)}/commands`;
    const headers = { ...this.headers(options), Accept: "application/x-ndjson" };
    const first = {
      ...this.postOf(path, { ...request, commandId }, options),
      headers: { ...JSON_TYPE, ...headers },
    };
    const source = this.commandSource(executionId, commandId, first, -1);
    const abort = () => this.abort(executionId, commandId, fencingOf(options));
    const listener = new AbortListener(options.signal, abort);
    try {
      yield* followEvents<CommandEvent>(this.transport, source);
    } finally {
      await listener.finish();
    }
  }

  /** An abort waits for the end of the making, deletes what was made, and rejects. */
  async checkpoint(
    executionId: string,
    request: schema.CheckpointCreate = {},
    options: CallOptions = {},
  ): Promise<schema.Checkpoint> {
    const checkpointId = request.checkpointId ?? randomId("checkpoint");
    const undo = { now: false, call: () => this.deleteCheckpoint(checkpointId) };
    const path = `${executionPath(executionId)}/checkpoints`;
    return orUndo(options.signal, undo, () => this.post(path, { ...request, checkpointId }, options));
  }

  /** An abort terminates what was being made and rejects with the signal's reason. */
  async restore(
    checkpointId: string,
    request: schema.CheckpointRestore = {},
    options: CallOptions = {},
  ): Promise<schema.Execution> {
    const executionId = request.executionId ?? randomId("exec");
    const undo = { now: true, call: () => this.terminate(executionId, fencingOf(options)) };
    const path = `/v1/checkpoints/${encodeURIComponent(checkpointId)}/restore`;
    return orUndo(options.signal, undo, () => this.post(path, { ...request, executionId }, options));
  }

  /** Resolves when nothing of it is left; also for one that never was. */
  async terminate(executionId: string, options: CallOptions = {}): Promise<void> {
    await this.remove(executionPath(executionId), {}, options);
  }

  /** Removes by identity alone what is left of it, whichever service made it. */
  async reclaim(executionId: string, options: CallOptions = {}): Promise<void> {
    const request = this.postOf(`${executionPath(executionId)}/reclaim`, undefined, options);
    await this.transport.text({ ...request, signal: options.signal });
  }

  /** Runs a program of a model; its calls are answered by the tools. */
  async runProgram(program: Program, options: ProgramOptions = {}): Promise<ProgramResult> {
    return runProgram(this.transport, program, options);
  }

  /* --- looking, and talking to a command --- */

  async execution(executionId: string, options: CallOptions = {}): Promise<schema.Execution> {
    return this.get(executionPath(executionId), options);
  }

  async command(
    executionId: string,
    commandId: string,
    options: CallOptions & { waitMs?: number } = {},
  ): Promise<schema.Command> {
    const { waitMs } = options;
    return this.get(commandPath(executionId, commandId), options, { waitMs });
  }

  /** A command's events, of one that runs or has ended; an abort of the signal only stops looking. */
  follow(
    executionId: string,
    commandId: string,
    options: FollowOptions = {},
  ): AsyncGenerator<CommandEvent, void, undefined> {
    const after = options.after ?? -1;
    const source = this.commandSource(executionId, commandId, undefined, after, options.signal);
    return followEvents<CommandEvent>(this.transport, source);
  }

  /** Destroys the whole execution of the command; nothing happens where it has ended. */
  async abort(executionId: string, commandId: string, options: CallOptions = {}): Promise<void> {
    await this.remove(commandPath(executionId, commandId), {}, options);
  }

  async signal(
    executionId: string,
    commandId: string,
    signal: string,
    options: CallOptions = {},
  ): Promise<void> {
    const path = `${commandPath(executionId, commandId)}/signal`;
    await this.transport.text(this.postOf(path, { signal }, options));
  }

  /** For a command with `stdinOpen`; a text or bytes. */
  async writeStdin(
    executionId: string,
    commandId: string,
    data: string | Uint8Array,
    options: CallOptions & { eof?: boolean } = {},
  ): Promise<void> {
    await this.transport.text({
      method: "POST",
      path: `${commandPath(executionId, commandId)}/stdin`,
      query: { eof: options.eof },
      body: data,
      headers: { ...this.headers(options), "Content-Type": "application/octet-stream" },
      signal: options.signal,
    });
  }

  /* --- files and checkpoints --- */

  async readFile(
    executionId: string,
    path: string,
    options: CallOptions = {},
  ): Promise<Uint8Array> {
    const { signal } = options;
    const target = `${executionPath(executionId)}/files/content`;
    return this.transport.bytes({ method: "GET", path: target, query: { path }, signal });
  }

  /** Whole or not at all; `mode` is octal, like "0644". */
  async writeFile(
    executionId: string,
    path: string,
    data: string | Uint8Array,
    options: CallOptions & { mode?: string } = {},
  ): Promise<void> {
    await this.transport.text({
      method: "PUT",
      path: `${executionPath(executionId)}/files/content`,
      query: { path, mode: options.mode },
      body: data,
      headers: { ...this.headers(options), "Content-Type": "application/octet-stream" },
      signal: options.signal,
    });
  }

  async deleteCheckpoint(checkpointId: string, options: CallOptions = {}): Promise<void> {
    await this.remove(`/v1/checkpoints/${encodeURIComponent(checkpointId)}`, {}, options);
  }

  /* --- requests --- */

  private headers(options: CallOptions): Record<string, string | undefined> {
    const fencing = options.fencingToken ?? this.options.fencingToken;
    return {
      "Idempotency-Key": options.idempotencyKey ?? randomId("key"),
      "Fencing-Token": fencing === undefined ? undefined : String(fencing),
    };
  }

  private postOf(path: string, body: object | undefined, options: CallOptions): Request {
    const headers = this.headers(options);
    if (body === undefined) {
      return { method: "POST", path, headers };
    }
    return { method: "POST", path, body: JSON.stringify(body), headers: { ...headers, ...JSON_TYPE } };
  }

  /** A POST that an abort does not cut: what was aborted says so itself. */
  private post<T>(path: string, body: object, options: CallOptions): Promise<T> {
    return this.transport.json<T>({ ...this.postOf(path, body, options), lastTry: options.signal });
  }

  private get<T>(path: string, options: CallOptions, query: Request["query"] = {}): Promise<T> {
    return this.transport.json<T>({ method: "GET", path, query, signal: options.signal });
  }

  private async remove(path: string, query: Request["query"], options: CallOptions): Promise<void> {
    const { "Fencing-Token": fencing } = this.headers(options);
    const headers = { "Fencing-Token": fencing };
    await this.transport.text({ method: "DELETE", path, query, headers, signal: options.signal });
  }

  private commandSource(
    executionId: string,
    commandId: string,
    first: Request | undefined,
    from: number,
    signal?: AbortSignal,
  ) {
    const path = `${commandPath(executionId, commandId)}/events`;
    const headers = { Accept: "application/x-ndjson" };
    const resume = (after: number): Request => ({
      ...{ method: "GET", path, headers, signal },
      query: { after: after < 0 ? undefined : after },
    });
    return { first: first ?? resume(from), resume, last: "exit", after: from };
  }
}

/** What undoes a call is fenced as the call was, and is not aborted with it. */
function fencingOf(options: CallOptions): CallOptions {
  return options.fencingToken === undefined ? {} : { fencingToken: options.fencingToken };
}
