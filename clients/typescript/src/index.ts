export { HttpExecutionHost } from "./host.js";
export type { CallOptions, FollowOptions, HostOptions } from "./host.js";
export { ExecutionHostError } from "./errors.js";
export type { ErrorCodeOrOwn } from "./errors.js";
export { LossyValueError, losslessStringify } from "./json.js";
export { outputOf } from "./output.js";
export type {
  Program,
  ProgramOptions,
  ProgramResult,
  Tool,
  ToolContext,
  Tools,
} from "./program.js";
export { Transport } from "./transport.js";
export type { Request, RetryOptions, TransportOptions } from "./transport.js";
export type { BindingErrorClass, CommandEvent, RunEvent } from "./types.js";
export type {
  Checkpoint,
  CheckpointCreate,
  CheckpointRestore,
  Command,
  CommandCreate,
  CommandTermination,
  ErrorCode,
  Execution,
  ExecutionCreate,
  Problem,
  Resources,
  RunResult,
} from "./schema.js";
