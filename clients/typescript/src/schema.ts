// Made by clients/generate from openapi/openapi.yaml; changes are made there.

/** Chosen by the caller, or made by the service with at least 96 random bits. */
export type Id = string;

/** RFC 3339 UTC with milliseconds. */
export type Timestamp = string;

/** RFC 3339 UTC with milliseconds, or null until it has happened. */
export type TimestampOrNull = string | null;

export type Count = number;

/** Null where the host can't tell. */
export type CountOrNull = number | null;

export type HostName = "docker" | "native";

export type Digest = string;

/** A name with the digest of an index, a manifest or a configuration. */
export type ImageReference = string;

/** A tag is taken only where the configuration allows unpinned images. */
export type UnpinnedImageReference = string;

/** All six are mandatory. Every host narrows these ranges by its own, published by `GET /v1/host`. */
export type Resources = {
  /** Fractions are allowed. */
  cpus: number;
  /** Without swap; the workspace's bytes count against it. */
  memoryBytes: number;
  /** What the workspace may hold. */
  diskBytes: number;
  /** Processes and threads, those of the host itself included. */
  pids: number;
  /** How long the execution may live. */
  runtimeMs: number;
  /** What one command may write, both streams together. */
  maxOutputBytes: number;
};

/** No network but loopback. */
export type Network = {
  mode: "none";
};

/** Starts empty. */
export type WorkspaceEmpty = {
  kind: "empty";
};

/** Starts empty, to be filled by an archive. */
export type WorkspaceArchive = {
  kind: "archive";
};

/** The files of one revision of a repository on the machine of the service, without `.git`. */
export type WorkspaceGit = {
  kind: "git-worktree";
  /** Absolute, below a configured root. */
  repositoryPath: string;
  revision: string;
};

/** What the workspace starts from. */
export type Workspace = WorkspaceEmpty | WorkspaceArchive | WorkspaceGit;

/** Data for the sandbox only. A name may not look like a secret's: uppercased and without characters that are neither letter nor digit it may not contain TOKEN, SECRET, PASSWORD, PASSWD, APIKEY, KEYAPI, ACCESSKEY, PRIVATEKEY or CREDENTIAL. */
export type Environment = Record<string, string>;

/** Any JSON object, at most 32 deep and 64 KiB long. */
export type Metadata = Record<string, unknown>;

export type Labels = Record<string, string>;

export type OwnerId = string;

export type FencingToken = number;

/** The scheduler or worker an execution belongs to. */
export type Owner = {
  ownerId: OwnerId;
  fencingToken: FencingToken;
};

export type ExecutionCreate = {
  executionId?: Id | null;
  /** The default host when left out. */
  host?: HostName | null;
  image: ImageReference | UnpinnedImageReference;
  workspace: Workspace;
  resources: Resources;
  network: Network;
  environment?: Environment | null;
  metadata?: Metadata | null;
  labels?: Labels | null;
  owner?: Owner | null;
};

/** At least one field; what is left out stays. */
export type ExecutionPatch = {
  labels?: Labels | null;
  metadata?: Metadata | null;
  expiresAt?: Timestamp | null;
};

export type ExecutionState = "provisioning" | "provisioned" | "terminating" | "terminated" | "failed";

/** Peaks and sums over the whole execution. */
export type ExecutionUsage = {
  cpuMs: CountOrNull;
  memoryPeakBytes: CountOrNull;
  pidsPeak: CountOrNull;
  workspaceBytes: CountOrNull;
};

/** Why and when the execution ended. */
export type ExecutionTermination = {
  reason: "terminated" | "expired" | "timeout" | "output-limit" | "aborted" | "oom" | "reclaimed" | "host-lost" | "provision-failed";
  /** Null where the end was asked for. */
  code: ErrorCode | null;
  /** For people. */
  detail: string | null;
  at: Timestamp;
};

/** `requestedAt` is when the request was accepted. `createdAt` and `expiresAt` are null until the execution is usable, then `expiresAt` is `createdAt` plus `runtimeMs`. */
export type Execution = {
  executionId: Id;
  /** Counts the executions of this id, from 1. */
  incarnation: number;
  state: ExecutionState;
  host: HostName;
  image: UnpinnedImageReference;
  requestedAt: Timestamp;
  createdAt: TimestampOrNull;
  expiresAt: TimestampOrNull;
  terminatedAt: TimestampOrNull;
  resources: Resources;
  network: Network;
  workspace: Workspace;
  environment: Environment;
  metadata: Metadata;
  labels: Labels;
  owner: Owner | null;
  /** The checkpoint it was restored from. */
  restoredFrom: Id | null;
  usage: ExecutionUsage;
  termination: ExecutionTermination | null;
  /** DISK_EXCEEDS_MEMORY: diskBytes is larger than what memoryBytes can hold, so a full workspace ends as `oom`. */
  warnings: "DISK_EXCEEDS_MEMORY"[];
};

/** Asks for the next page as `cursor`; null at the end. */
export type NextCursor = string | null;

export type ExecutionList = {
  items: Execution[];
  nextCursor: NextCursor;
};

/** At most one of `stdin` and `stdinBase64`. */
export type CommandCreate = {
  commandId?: Id | null;
  /** A path, or a name that is searched in the effective PATH inside. No NUL. */
  command: string;
  /** No NUL. */
  args?: string[] | null;
  /** Relative to the workspace and below it; the workspace when left out. */
  cwd?: string | null;
  environment?: Environment | null;
  /** Delivered, then end of file unless `stdinOpen` is set; /dev/null when left out. */
  stdin?: string | null;
  /** The same for bytes. */
  stdinBase64?: string | null;
  /** More comes by POST of `…/stdin`, behind `stdin` or `stdinBase64`, until one of those closes it with `eof=true`. */
  stdinOpen?: boolean | null;
  /** What is left of the execution when left out. */
  timeoutMs?: number | null;
  onLimit?: OnLimit | null;
};

export type CommandSignal = {
  /** As `kill -l` names it, with `SIG` before. */
  signal: string;
};

/** What to do before a command that hit a limit takes its execution with it. */
export type OnLimit = {
  /** Checkpoint the workspace on timeout and output-limit. */
  checkpoint?: boolean | null;
};

/** The signal that ended the program. */
export type Signal = string | null;

/** `code` is null for `exited` and `signaled`. `checkpointId` is there where `onLimit` asked for a checkpoint and one was made. */
export type CommandTermination = {
  reason: "exited" | "signaled" | "timeout" | "expired" | "output-limit" | "oom" | "aborted" | "terminated" | "host-lost" | "not-started";
  code: null | "EXECUTION_TIMEOUT" | "EXECUTION_OUTPUT_LIMIT" | "EXECUTION_RESOURCE_LIMIT" | "EXECUTION_RUNTIME_ERROR" | "EXECUTION_INVALID_REQUEST";
  /** For people. */
  detail: string | null;
  checkpointId?: Id;
};

export type CommandUsage = {
  cpuMs: CountOrNull;
  memoryPeakBytes: CountOrNull;
  wallMs: CountOrNull;
};

/** A command without its output. */
export type CommandSummary = {
  commandId: Id;
  executionId: Id;
  state: CommandState;
  command: string;
  args: string[];
  cwd: CommandCwd;
  startedAt: TimestampOrNull;
  completedAt: TimestampOrNull;
  exitCode: ExitCode;
  signal: Signal;
  stdoutBytes: Count;
  stderrBytes: Count;
  truncated: Truncated;
  usage: CommandUsage;
  termination: CommandTermination | null;
};

/** A command with its output, each stream cut at 1 MiB on a code point. */
export type Command = {
  commandId: Id;
  executionId: Id;
  state: CommandState;
  command: string;
  args: string[];
  cwd: CommandCwd;
  startedAt: TimestampOrNull;
  completedAt: TimestampOrNull;
  exitCode: ExitCode;
  signal: Signal;
  stdout: string;
  stderr: string;
  /** base64 for both streams where either is not valid UTF-8. */
  encoding: "utf-8" | "base64";
  stdoutBytes: Count;
  stderrBytes: Count;
  truncated: Truncated;
  /** A stream was cut in this answer only. */
  inlineTruncated: boolean;
  usage: CommandUsage;
  termination: CommandTermination | null;
};

export type CommandState = "queued" | "running" | "exited" | "failed";

/** Normalised, relative to the workspace; `.` is the workspace. */
export type CommandCwd = string;

export type ExitCode = number | null;

/** Output was lost because the cap was hit. */
export type Truncated = boolean;

/** One event of a transcript. */
export type CommandEvent = EventStarted | EventOutputText | EventOutputBytes | EventExit | EventPing;

/** The program is being started. */
export type EventStarted = {
  seq: number;
  type: "started";
  at: Timestamp;
};

/** Output that is UTF-8 by itself. */
export type EventOutputText = {
  seq: number;
  type: "stdout" | "stderr";
  at: Timestamp;
  /** Bytes of the stream before it. */
  offset: number;
  data: string;
};

/** Output that is not. */
export type EventOutputBytes = {
  seq: number;
  type: "stdout" | "stderr";
  at: Timestamp;
  /** Bytes of the stream before it. */
  offset: number;
  dataBase64: string;
};

/** The command has ended; always the last event. */
export type EventExit = {
  seq: number;
  type: "exit";
  at: Timestamp;
  command: CommandSummary;
};

/** A sign of life in a stream of lines; it has no place among the events. */
export type EventPing = {
  type: "ping";
};

/** One change of what a tenant has. */
export type Change = ChangeOfExecution | ChangeOfCommand | ChangeOfCheckpoint | ChangeOfRun | ChangeGap | EventPing;

/** An execution came, changed or went. */
export type ChangeOfExecution = {
  seq: number;
  type: "execution";
  at: Timestamp;
  executionId: Id;
  incarnation: number;
  state: "provisioning" | "provisioned" | "terminating" | "terminated" | "failed" | "deleted";
  host: HostName;
  expiresAt: Timestamp | null;
  /** Of its termination. */
  reason: string | null;
};

/** A command came or changed. */
export type ChangeOfCommand = {
  seq: number;
  type: "command";
  at: Timestamp;
  executionId: Id;
  incarnation: number;
  state: "queued" | "running" | "exited" | "failed" | "deleted";
  commandId: Id;
  exitCode: number | null;
  /** Of its termination. */
  reason: string | null;
};

/** A checkpoint was made, changed or went; the execution is its source. */
export type ChangeOfCheckpoint = {
  seq: number;
  type: "checkpoint";
  at: Timestamp;
  executionId: Id;
  incarnation: number;
  state: "local" | "uploading" | "durable" | "failed" | "deleted";
  checkpointId: Id;
};

/** Events up to and including this seq are not to be had. */
export type ChangeGap = {
  seq: number;
  type: "gap";
  at: Timestamp;
};

export type SandboxMode = "read-only" | "workspace-write" | "danger-full-access";

/** Whether every promise of the sandbox holds. */
export type Enforcement = "full" | "partial" | "none";

export type PtcDescriptor = {
  language: "typescript";
  isolation: "process";
  timeout: {
    defaultMs: number;
    maxMs: number;
  };
  sandboxMode: SandboxMode;
  enforcement: Enforcement;
  enforcementReason: string | null;
  executionInstructions: string;
};

export type Binding = {
  global: string;
  functions: string[];
  errorClass?: {
    name: string;
    memberNameProperty: string;
  };
};

/** All but program, description and bindings may be left out; null equals left out but for `timeoutMs`, where it means no timer. */
export type RunCreate = {
  /** Body of an async function */
  program: string;
  description: string;
  bindings: Binding[];
  cwd?: string | null;
  timeoutMs?: number | null;
  sandboxPolicy?: {
    mode?: "read-only" | "workspace-write" | "danger-full-access" | null;
    workspaceRoot?: string | null;
    network?: "none" | "host" | null;
  } | null;
  /** The program runs inside of this execution (host `native`), in its workspace, as its commands' user and under its limits of memory and processes; `sandboxPolicy.mode` says whether it may write. Beside whatever else runs there; its end is not the execution's. */
  executionId?: string | null;
  runId?: string | null;
  /** Without an execution at least 67108864 bytes of memory and 16 processes; in one, not below its own limits. */
  limits?: {
    memoryBytes?: number | null;
    pids?: number | null;
    cpuMs?: number | null;
    heapBytes?: number | null;
    maxOutputBytes?: number | null;
  } | null;
  metadata?: Metadata | null;
  labels?: Record<string, string> | null;
};

/** The request with every choice made. */
export type RunSpec = {
  program: string;
  description: string;
  bindings: Binding[];
  cwd: string;
  timeoutMs: number | null;
  sandboxPolicy: {
    mode: SandboxMode;
    workspaceRoot: string | null;
    network: "none" | "host";
  };
  limits: {
    memoryBytes: number;
    pids: number;
    cpuMs: number;
    heapBytes: number;
    maxOutputBytes: number;
  };
  executionId: string | null;
  runId: string | null;
  metadata: Record<string, unknown>;
  labels: Record<string, string>;
};

export type CallCounts = {
  total: number;
  pending: number;
  answered: number;
  cancelled: number;
};

export type RunErrorKind = "exception" | "timeout" | "abort" | "worker-exit" | "invalid-output" | "output-limit" | "protocol" | "sandbox-unavailable";

/** "completed" where the program returned, else the kind of its error; null until it is settled. */
export type RunOutcome = "completed" | "exception" | "timeout" | "abort" | "worker-exit" | "invalid-output" | "output-limit" | "protocol" | "sandbox-unavailable" | null;

export type RunState = "starting" | "running" | "settled";

/** What the program returned (`value` is left out for undefined) or why it did not. */
export type RunResult = {
  logs: string[];
  /** Any JSON value */
  value?: unknown;
  error?: {
    kind: RunErrorKind;
    message: string;
  };
  sandbox: {
    mode: SandboxMode;
    /** The program failed and its message carries a denial: a hint, not proof. */
    denied: boolean;
    enforcement?: Enforcement;
  };
};

export type Run = {
  runId: Id;
  state: RunState;
  description: string;
  startedAt: TimestampOrNull;
  completedAt: TimestampOrNull;
  calls: CallCounts;
  outcome: RunOutcome;
  spec: RunSpec;
  result: RunResult | null;
};

/** A run without its spec and result. */
export type RunSummary = {
  runId: Id;
  state: RunState;
  description: string;
  startedAt: TimestampOrNull;
  completedAt: TimestampOrNull;
  calls: CallCounts;
  outcome: RunOutcome;
};

export type RunList = {
  items: RunSummary[];
  nextCursor: NextCursor;
};

export type Call = {
  callId: number;
  global: string;
  function: string;
  /** Any JSON value; left out where the program gave none. */
  argument?: unknown;
  at: Timestamp;
};

export type CallList = {
  items: Call[];
  nextCursor: null;
};

export type CallAnswer = {
  ok: true;
  /** Any JSON value; left out for undefined. */
  value?: unknown;
} | {
  ok: false;
  message: string;
};

export type CallAnswered = {
  callId: number;
  state: "answered";
};

/** One event of a run. */
export type RunEvent = RunEventStarted | RunEventLog | RunEventCall | RunEventCallSettled | RunEventResult | EventPing;

/** The program is being started. */
export type RunEventStarted = {
  seq: number;
  type: "started";
  at: Timestamp;
};

/** One entry of the log. */
export type RunEventLog = {
  seq: number;
  type: "log";
  at: Timestamp;
  text: string;
};

/** A binding was called; the program waits for the answer. */
export type RunEventCall = {
  seq: number;
  type: "call";
  at: Timestamp;
  callId: number;
  global: string;
  function: string;
  /** Any JSON value; left out where the program gave none. */
  argument?: unknown;
};

/** The call was answered, or the run ended before it was. */
export type RunEventCallSettled = {
  seq: number;
  type: "call-settled";
  at: Timestamp;
  callId: number;
  state: "answered" | "cancelled";
};

/** The run is settled; always the last event. */
export type RunEventResult = {
  seq: number;
  type: "result";
  at: Timestamp;
  result: RunResult;
};

/** A run came, changed or went. */
export type ChangeOfRun = {
  seq: number;
  type: "run";
  at: Timestamp;
  runId: Id;
  state: "starting" | "running" | "settled" | "deleted";
  outcome: RunOutcome;
};

export type CommandList = {
  items: CommandSummary[];
  nextCursor: NextCursor;
};

/** Permission bits, octal. */
export type FileMode = string;

/** "special" is a FIFO, socket or device. */
export type FileType = "file" | "directory" | "symlink" | "special";

export type FileItem = {
  path: string;
  type: FileType;
  /** Bytes of a file, 0 of everything else. */
  size: number;
  mode: FileMode;
  mtime: Timestamp;
  /** What a symbolic link says, else null. */
  target: string | null;
};

/** Where path or target is not valid UTF-8, both come in base64. */
export type FileItemBytes = {
  pathBase64: string;
  type: FileType;
  size: number;
  mode: FileMode;
  mtime: Timestamp;
  targetBase64: string | null;
};

export type FileList = {
  items: (FileItem | FileItemBytes)[];
};

export type CheckpointCreate = {
  checkpointId?: Id | null;
  /** The checkpoint's own. */
  metadata?: Metadata | null;
  /** Publish it before answering; needs a configured shared store. */
  share?: boolean | null;
};

export type CheckpointRestore = {
  executionId?: Id | null;
  host?: HostName | null;
  owner?: Owner | null;
  labels?: Labels | null;
};

export type Durability = "local" | "uploading" | "durable" | "failed";

/** The reference other workers may rely on, and how far publishing it has come. */
export type SharedCheckpoint = {
  uri: string;
  digest: Digest;
  uploadedAt: TimestampOrNull;
  bytesSent: Count;
  bytesTotal: Count;
  /** Why the last attempt failed. */
  error: SharedError | null;
};

export type SharedError = {
  code: ErrorCode;
  detail: string;
  retryable: boolean;
};

/** A published checkpoint. What its manifest does not tell because it can't be read is null, and `problem` says why. */
export type SharedItem = {
  checkpointId: Id;
  uri: string;
  digest: Digest;
  uploadedAt: TimestampOrNull;
  createdAt: TimestampOrNull;
  sourceExecutionId: Id | null;
  sizeBytes: Count | null;
  archiveBytes: Count | null;
  image: UnpinnedImageReference | null;
  metadata: Metadata | null;
  problem: string | null;
};

export type SharedList = {
  items: SharedItem[];
  nextCursor: NextCursor;
};

/** Where checkpoints are published. */
export type SharedStore = {
  endpoint: string;
  region: string;
  bucket: string;
  prefix: string | null;
  pathStyle: boolean;
  /** Whether it honours writes that must not replace; where it does not, manifests are looked for, written, read back and compared. Null until it has answered for the first time. */
  conditionalWrites: boolean | null;
};

export type Checkpoint = {
  checkpointId: Id;
  sourceExecutionId: Id;
  createdAt: Timestamp;
  /** 4 KiB blocks that hold data, hard links once, links not followed. */
  sizeBytes: number;
  archiveBytes: Count;
  archiveDigest: Digest;
  entries: Count;
  /** Devices, FIFOs and sockets that were left out. */
  skipped: number;
  image: UnpinnedImageReference;
  resources: Resources;
  metadata: Metadata;
  durability: Durability;
  shared: SharedCheckpoint | null;
};

/** Bytes as they are. */
export type Bytes = unknown;

/** The shared reference of a checkpoint. */
export type CheckpointImport = {
  uri: string;
  digest: Digest;
};

/** What is in a checkpoint, version 1. */
export type Manifest = {
  version: 1;
  checkpointId: Id;
  sourceExecutionId: Id;
  sourceIncarnation: number;
  createdAt: Timestamp;
  image: UnpinnedImageReference;
  /** Every digest that names the image. */
  imageDigests: string[];
  resources: Resources;
  network: Network;
  environment: Environment;
  metadata: Metadata;
  contentBytes: Count;
  entries: Count;
  skipped: Count;
  archive: {
    digest: Digest;
    bytes: Count;
    compression: "zstd" | "none";
    format: "pax";
  };
  files: Digest;
};

/** A checkpoint that is being made; what is not yet known is null. */
export type CheckpointPending = {
  checkpointId: Id;
  sourceExecutionId: Id;
  createdAt: Timestamp;
  sizeBytes: null;
  archiveBytes: null;
  archiveDigest: null;
  entries: null;
  skipped: null;
  image: UnpinnedImageReference;
  resources: Resources;
  metadata: Metadata;
  durability: "local";
  shared: null;
};

export type CheckpointList = {
  items: Checkpoint[];
  nextCursor: NextCursor;
};

export type Verification = {
  ok: boolean;
  /** Empty where it is intact; for people. */
  problems: string[];
};

export type Image = {
  reference: ImageReference;
  host: HostName;
  /** Of index, manifest and configuration, as far as known; any of them names it. */
  digests: Digest[];
  sizeBytes: Count;
};

export type ImageList = {
  items: Image[];
};

export type ImageFetch = {
  reference: ImageReference;
  /** The default host when left out. */
  host?: HostName | null;
};

export type LimitRange = {
  min: Count;
  max: Count;
};

export type CpuRange = {
  min: number;
  max: number;
};

/** What a request may ask for there. */
export type HostLimits = {
  cpus: CpuRange;
  memoryBytes: LimitRange;
  diskBytes: LimitRange;
  pids: LimitRange;
  runtimeMs: LimitRange;
  maxOutputBytes: LimitRange;
};

export type Engine = {
  version: string;
  apiVersion: string;
};

/** An implementation of the five operations. */
export type Host = {
  name: HostName;
  state: "available" | "unavailable";
  /** Why it is unavailable. */
  reason: string | null;
  isDefault: boolean;
  /** Null where there is none, or it can't be reached. */
  engine: Engine | null;
  limits: HostLimits;
  /** What is applied to every execution there and read back; for people. */
  enforces: string[];
};

/** What is in use now. Sizes and cpus are the sum of what executions were granted. */
export type Capacity = {
  executions: Count;
  commandsRunning: Count;
  commandsQueued: Count;
  cpus: number;
  memoryBytes: Count;
  diskBytes: Count;
  limits: CapacityLimits;
};

/** The most that living executions may be granted together, of all tenants; null: any amount. A request for more is OVERLOADED, unless it would have the machine to itself. */
export type CapacityLimits = {
  executions: CountOrNull;
  cpus: number | null;
  memoryBytes: CountOrNull;
  diskBytes: CountOrNull;
  /** Runs of programs at once. */
  runs: number | null;
};

export type Quota = {
  /** Null where there is none. */
  limit: number | null;
  /** Null for a rate. */
  used: number | null;
};

/** What the tenant has, and may have by the word of the token that asks. Beyond a limit: QUOTA_EXCEEDED. */
export type Quotas = {
  executions: Quota;
  cpus: Quota;
  memoryBytes: Quota;
  diskBytes: Quota;
  commands: Quota;
  runs: Quota;
  storedBytes: Quota;
  requestsPerSecond: Quota;
};

/** What the last start found and did. */
export type Reconciliation = {
  startedAt: Timestamp;
  completedAt: TimestampOrNull;
  adopted: Count;
  hostLost: Count;
  expired: Count;
  destroyedUnrecorded: Count;
  thawed: Count;
  terminationsFinished: Count;
  checkpointsRemoved: Count;
  transcriptsRepaired: Count;
  foreignLeftAlone: Count;
  /** What could not be done; for people. */
  problems: string[];
};

export type Service = {
  version: string;
  /** Of the data directory; marks everything this service makes. */
  instanceId: string;
  hosts: Host[];
  capacity: Capacity;
  quotas: Quotas;
  /** Of all tenants; null for a token without the scope admin, and before the first. */
  lastReconciliation: Reconciliation | null;
  /** Null where none is configured. */
  sharedStore: SharedStore | null;
};

export type Health = {
  status: "ok";
};

export type Readiness = {
  status: "ready";
};

/** Stable; a detail is for people. */
export type ErrorCode = "EXECUTION_INVALID_REQUEST" | "EXECUTION_RESOURCE_LIMIT" | "EXECUTION_NETWORK_POLICY" | "EXECUTION_NOT_FOUND" | "EXECUTION_ALREADY_EXISTS" | "EXECUTION_TIMEOUT" | "EXECUTION_OUTPUT_LIMIT" | "EXECUTION_HOST_UNAVAILABLE" | "EXECUTION_RUNTIME_ERROR" | "EXECUTION_CREDENTIAL_ERROR" | "EXECUTION_CHECKPOINT_NOT_FOUND" | "EXECUTION_CHECKPOINT_INVALID" | "COMMAND_NOT_FOUND" | "FILE_NOT_FOUND" | "CHECKPOINT_IN_USE" | "TRANSCRIPT_GONE" | "SHARED_STORE_NOT_CONFIGURED" | "SHARED_CONFLICT" | "CHECKPOINT_UPLOAD_FAILED" | "SHARED_STORE_REFUSED" | "SHARED_STORE_UNAVAILABLE" | "IMAGE_NOT_FOUND" | "ID_IN_USE" | "OWNER_FENCED" | "IDEMPOTENCY_CONFLICT" | "INTERNAL" | "FORBIDDEN" | "ROUTE_NOT_FOUND" | "METHOD_NOT_ALLOWED" | "PAYLOAD_TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE" | "RANGE_NOT_SATISFIABLE" | "UNAUTHENTICATED" | "QUOTA_EXCEEDED" | "OVERLOADED" | "STORAGE_FULL" | "PTC_INVALID_REQUEST" | "PTC_RUN_NOT_FOUND" | "PTC_CALL_NOT_FOUND" | "PTC_CALL_SETTLED" | "PTC_RUN_SETTLED";

export type Cause = {
  code: ErrorCode;
  detail: string;
};

/** A problem document (RFC 9457). */
export type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  retryable: boolean;
  requestId: string;
  /** The JSON pointer of the field, `?` and the name of a query parameter, or the name of a header. */
  field?: string;
  phase?: "validate" | "create" | "start" | "import" | "exec" | "export" | "load" | "upload" | "cleanup";
  causes?: Cause[];
};
