// The resources, as far as the page reads them; openapi/openapi.yaml has all of it.

export interface Resources {
    cpus: number;
    memoryBytes: number;
    diskBytes: number;
    pids: number;
    runtimeMs: number;
    maxOutputBytes: number;
}

export interface Usage {
    cpuMs: number | null;
    memoryPeakBytes: number | null;
    pidsPeak: number | null;
    workspaceBytes: number | null;
}

export interface Execution {
    executionId: string;
    incarnation: number;
    state: string;
    host: string;
    image: string;
    requestedAt: string;
    createdAt: string | null;
    expiresAt: string | null;
    terminatedAt: string | null;
    resources: Resources;
    workspace: {kind: string; repositoryPath?: string; revision?: string};
    environment: Record<string, string>;
    metadata: Record<string, unknown>;
    labels: Record<string, string>;
    owner: {ownerId: string; fencingToken: number} | null;
    restoredFrom: string | null;
    usage: Usage;
    termination: {reason: string; code: string | null; detail: string | null; at: string} | null;
    warnings: string[];
}

export interface Command {
    commandId: string;
    executionId: string;
    state: string;
    command: string;
    args: string[];
    cwd: string;
    startedAt: string | null;
    completedAt: string | null;
    exitCode: number | null;
    signal: string | null;
    stdoutBytes: number;
    stderrBytes: number;
    truncated: boolean;
    usage: {cpuMs: number | null; memoryPeakBytes: number | null; wallMs: number | null};
    termination: {reason: string; detail: string | null; checkpointId?: string} | null;
}

export interface FileItem {
    path?: string;
    pathBase64?: string;
    type: string;
    size: number;
    mode: string;
    mtime: string;
    target?: string | null;
    targetBase64?: string | null;
}

export interface Checkpoint {
    checkpointId: string;
    sourceExecutionId: string;
    createdAt: string;
    sizeBytes: number | null;
    archiveBytes: number | null;
    archiveDigest: string | null;
    entries: number | null;
    skipped: number | null;
    image: string;
    durability: string;
    shared: {
        uri: string;
        digest: string;
        uploadedAt: string | null;
        bytesSent: number;
        bytesTotal: number;
        error: {code: string; detail: string; retryable: boolean} | null;
    } | null;
}

export interface SharedItem {
    checkpointId: string;
    uri: string;
    digest: string | null;
    uploadedAt: string | null;
    createdAt: string | null;
    sourceExecutionId: string | null;
    sizeBytes: number | null;
    archiveBytes: number | null;
    image: string | null;
    problem: string | null;
}

export interface RunSummary {
    runId: string;
    state: string;
    description: string;
    startedAt: string | null;
    completedAt: string | null;
    calls: {total: number; pending: number; answered: number; cancelled: number};
    outcome: string | null;
}

export interface Run extends RunSummary {
    spec: {
        program: string;
        timeoutMs: number | null;
        sandboxPolicy: {mode: string; network: string};
        executionId: string | null;
        bindings: {global: string; functions: string[]}[];
    };
}

export interface Range {
    min: number;
    max: number;
}

export interface Host {
    name: string;
    state: string;
    reason: string | null;
    isDefault: boolean;
    engine: {version: string; apiVersion: string} | null;
    limits: Record<keyof Resources, Range>;
    enforces: string[];
}

export interface Service {
    version: string;
    instanceId: string;
    hosts: Host[];
    capacity: {
        executions: number;
        commandsRunning: number;
        commandsQueued: number;
        cpus: number;
        memoryBytes: number;
        diskBytes: number;
        limits: Record<'executions' | 'cpus' | 'memoryBytes' | 'diskBytes' | 'runs', number | null>;
    };
    quotas: Record<string, {limit: number | null; used: number | null}>;
    lastReconciliation: (Record<string, number> & {
        startedAt: string;
        completedAt: string | null;
        problems: string[];
    }) | null;
    sharedStore: {endpoint: string; bucket: string; prefix: string | null} | null;
}

export interface Image {
    reference: string;
    host: string;
    sizeBytes: number;
}

export interface Page<T> {
    items: T[];
    nextCursor: string | null;
}
