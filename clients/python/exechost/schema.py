"""Made by clients/generate from openapi/openapi.yaml; changes are made there."""
from typing import Any, Dict, List, Literal, TypedDict, Union

Id = str

Timestamp = str

TimestampOrNull = Union[str, None]

Count = int

CountOrNull = Union[int, None]

HostName = Literal['docker', 'native']

Digest = str

ImageReference = str

UnpinnedImageReference = str

Resources = TypedDict('Resources', {
    'cpus': float,
    'memoryBytes': int,
    'diskBytes': int,
    'pids': int,
    'runtimeMs': int,
    'maxOutputBytes': int,
})

Network = TypedDict('Network', {
    'mode': Literal['none'],
})

WorkspaceEmpty = TypedDict('WorkspaceEmpty', {
    'kind': Literal['empty'],
})

WorkspaceArchive = TypedDict('WorkspaceArchive', {
    'kind': Literal['archive'],
})

WorkspaceGit = TypedDict('WorkspaceGit', {
    'kind': Literal['git-worktree'],
    'repositoryPath': str,
    'revision': str,
})

Workspace = Union["WorkspaceEmpty", "WorkspaceArchive", "WorkspaceGit"]

Environment = Dict[str, str]

Metadata = Dict[str, Any]

Labels = Dict[str, str]

OwnerId = str

FencingToken = int

Owner = TypedDict('Owner', {
    'ownerId': "OwnerId",
    'fencingToken': "FencingToken",
})

_ExecutionCreateRequired = TypedDict('_ExecutionCreateRequired', {
    'image': Union["ImageReference", "UnpinnedImageReference"],
    'workspace': "Workspace",
    'resources': "Resources",
    'network': "Network",
})

_ExecutionCreateOptional = TypedDict('_ExecutionCreateOptional', {
    'executionId': Union["Id", None],
    'host': Union["HostName", None],
    'environment': Union["Environment", None],
    'metadata': Union["Metadata", None],
    'labels': Union["Labels", None],
    'owner': Union["Owner", None],
}, total=False)


class ExecutionCreate(_ExecutionCreateRequired, _ExecutionCreateOptional):
    pass


ExecutionPatch = TypedDict('ExecutionPatch', {
    'labels': Union["Labels", None],
    'metadata': Union["Metadata", None],
    'expiresAt': Union["Timestamp", None],
}, total=False)

ExecutionState = Literal['provisioning', 'provisioned', 'terminating', 'terminated', 'failed']

ExecutionUsage = TypedDict('ExecutionUsage', {
    'cpuMs': "CountOrNull",
    'memoryPeakBytes': "CountOrNull",
    'pidsPeak': "CountOrNull",
    'workspaceBytes': "CountOrNull",
})

ErrorCode = Literal['EXECUTION_INVALID_REQUEST', 'EXECUTION_RESOURCE_LIMIT', 'EXECUTION_NETWORK_POLICY', 'EXECUTION_NOT_FOUND', 'EXECUTION_ALREADY_EXISTS', 'EXECUTION_TIMEOUT', 'EXECUTION_OUTPUT_LIMIT', 'EXECUTION_HOST_UNAVAILABLE', 'EXECUTION_RUNTIME_ERROR', 'EXECUTION_CREDENTIAL_ERROR', 'EXECUTION_CHECKPOINT_NOT_FOUND', 'EXECUTION_CHECKPOINT_INVALID', 'COMMAND_NOT_FOUND', 'FILE_NOT_FOUND', 'CHECKPOINT_IN_USE', 'TRANSCRIPT_GONE', 'SHARED_STORE_NOT_CONFIGURED', 'SHARED_CONFLICT', 'CHECKPOINT_UPLOAD_FAILED', 'SHARED_STORE_REFUSED', 'SHARED_STORE_UNAVAILABLE', 'IMAGE_NOT_FOUND', 'ID_IN_USE', 'OWNER_FENCED', 'IDEMPOTENCY_CONFLICT', 'INTERNAL', 'FORBIDDEN', 'ROUTE_NOT_FOUND', 'METHOD_NOT_ALLOWED', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'RANGE_NOT_SATISFIABLE', 'UNAUTHENTICATED', 'QUOTA_EXCEEDED', 'OVERLOADED', 'STORAGE_FULL', 'PTC_INVALID_REQUEST', 'PTC_RUN_NOT_FOUND', 'PTC_CALL_NOT_FOUND', 'PTC_CALL_SETTLED', 'PTC_RUN_SETTLED']

ExecutionTermination = TypedDict('ExecutionTermination', {
    'reason': Literal['terminated', 'expired', 'timeout', 'output-limit', 'aborted', 'oom', 'reclaimed', 'host-lost', 'provision-failed'],
    'code': Union["ErrorCode", None],
    'detail': Union[str, None],
    'at': "Timestamp",
})

Execution = TypedDict('Execution', {
    'executionId': "Id",
    'incarnation': int,
    'state': "ExecutionState",
    'host': "HostName",
    'image': "UnpinnedImageReference",
    'requestedAt': "Timestamp",
    'createdAt': "TimestampOrNull",
    'expiresAt': "TimestampOrNull",
    'terminatedAt': "TimestampOrNull",
    'resources': "Resources",
    'network': "Network",
    'workspace': "Workspace",
    'environment': "Environment",
    'metadata': "Metadata",
    'labels': "Labels",
    'owner': Union["Owner", None],
    'restoredFrom': Union["Id", None],
    'usage': "ExecutionUsage",
    'termination': Union["ExecutionTermination", None],
    'warnings': List[Literal['DISK_EXCEEDS_MEMORY']],
})

NextCursor = Union[str, None]

ExecutionList = TypedDict('ExecutionList', {
    'items': List["Execution"],
    'nextCursor': "NextCursor",
})

OnLimit = TypedDict('OnLimit', {
    'checkpoint': Union[bool, None],
}, total=False)

_CommandCreateRequired = TypedDict('_CommandCreateRequired', {
    'command': str,
})

_CommandCreateOptional = TypedDict('_CommandCreateOptional', {
    'commandId': Union["Id", None],
    'args': Union[List[str], None],
    'cwd': Union[str, None],
    'environment': Union["Environment", None],
    'stdin': Union[str, None],
    'stdinBase64': Union[str, None],
    'stdinOpen': Union[bool, None],
    'timeoutMs': Union[int, None],
    'onLimit': Union["OnLimit", None],
}, total=False)


class CommandCreate(_CommandCreateRequired, _CommandCreateOptional):
    pass


CommandSignal = TypedDict('CommandSignal', {
    'signal': str,
})

Signal = Union[str, None]

_CommandTerminationRequired = TypedDict('_CommandTerminationRequired', {
    'reason': Literal['exited', 'signaled', 'timeout', 'expired', 'output-limit', 'oom', 'aborted', 'terminated', 'host-lost', 'not-started'],
    'code': Literal[None, 'EXECUTION_TIMEOUT', 'EXECUTION_OUTPUT_LIMIT', 'EXECUTION_RESOURCE_LIMIT', 'EXECUTION_RUNTIME_ERROR', 'EXECUTION_INVALID_REQUEST'],
    'detail': Union[str, None],
})

_CommandTerminationOptional = TypedDict('_CommandTerminationOptional', {
    'checkpointId': "Id",
}, total=False)


class CommandTermination(_CommandTerminationRequired, _CommandTerminationOptional):
    pass


CommandUsage = TypedDict('CommandUsage', {
    'cpuMs': "CountOrNull",
    'memoryPeakBytes': "CountOrNull",
    'wallMs': "CountOrNull",
})

CommandState = Literal['queued', 'running', 'exited', 'failed']

CommandCwd = str

ExitCode = Union[int, None]

Truncated = bool

CommandSummary = TypedDict('CommandSummary', {
    'commandId': "Id",
    'executionId': "Id",
    'state': "CommandState",
    'command': str,
    'args': List[str],
    'cwd': "CommandCwd",
    'startedAt': "TimestampOrNull",
    'completedAt': "TimestampOrNull",
    'exitCode': "ExitCode",
    'signal': "Signal",
    'stdoutBytes': "Count",
    'stderrBytes': "Count",
    'truncated': "Truncated",
    'usage': "CommandUsage",
    'termination': Union["CommandTermination", None],
})

Command = TypedDict('Command', {
    'commandId': "Id",
    'executionId': "Id",
    'state': "CommandState",
    'command': str,
    'args': List[str],
    'cwd': "CommandCwd",
    'startedAt': "TimestampOrNull",
    'completedAt': "TimestampOrNull",
    'exitCode': "ExitCode",
    'signal': "Signal",
    'stdout': str,
    'stderr': str,
    'encoding': Literal['utf-8', 'base64'],
    'stdoutBytes': "Count",
    'stderrBytes': "Count",
    'truncated': "Truncated",
    'inlineTruncated': bool,
    'usage': "CommandUsage",
    'termination': Union["CommandTermination", None],
})

EventStarted = TypedDict('EventStarted', {
    'seq': int,
    'type': Literal['started'],
    'at': "Timestamp",
})

EventOutputText = TypedDict('EventOutputText', {
    'seq': int,
    'type': Literal['stdout', 'stderr'],
    'at': "Timestamp",
    'offset': int,
    'data': str,
})

EventOutputBytes = TypedDict('EventOutputBytes', {
    'seq': int,
    'type': Literal['stdout', 'stderr'],
    'at': "Timestamp",
    'offset': int,
    'dataBase64': str,
})

EventExit = TypedDict('EventExit', {
    'seq': int,
    'type': Literal['exit'],
    'at': "Timestamp",
    'command': "CommandSummary",
})

EventPing = TypedDict('EventPing', {
    'type': Literal['ping'],
})

CommandEvent = Union["EventStarted", "EventOutputText", "EventOutputBytes", "EventExit", "EventPing"]

ChangeOfExecution = TypedDict('ChangeOfExecution', {
    'seq': int,
    'type': Literal['execution'],
    'at': "Timestamp",
    'executionId': "Id",
    'incarnation': int,
    'state': Literal['provisioning', 'provisioned', 'terminating', 'terminated', 'failed', 'deleted'],
    'host': "HostName",
    'expiresAt': Union["Timestamp", None],
    'reason': Union[str, None],
})

ChangeOfCommand = TypedDict('ChangeOfCommand', {
    'seq': int,
    'type': Literal['command'],
    'at': "Timestamp",
    'executionId': "Id",
    'incarnation': int,
    'state': Literal['queued', 'running', 'exited', 'failed', 'deleted'],
    'commandId': "Id",
    'exitCode': Union[int, None],
    'reason': Union[str, None],
})

ChangeOfCheckpoint = TypedDict('ChangeOfCheckpoint', {
    'seq': int,
    'type': Literal['checkpoint'],
    'at': "Timestamp",
    'executionId': "Id",
    'incarnation': int,
    'state': Literal['local', 'uploading', 'durable', 'failed', 'deleted'],
    'checkpointId': "Id",
})

RunOutcome = Literal['completed', 'exception', 'timeout', 'abort', 'worker-exit', 'invalid-output', 'output-limit', 'protocol', 'sandbox-unavailable', None]

ChangeOfRun = TypedDict('ChangeOfRun', {
    'seq': int,
    'type': Literal['run'],
    'at': "Timestamp",
    'runId': "Id",
    'state': Literal['starting', 'running', 'settled', 'deleted'],
    'outcome': "RunOutcome",
})

ChangeGap = TypedDict('ChangeGap', {
    'seq': int,
    'type': Literal['gap'],
    'at': "Timestamp",
})

Change = Union["ChangeOfExecution", "ChangeOfCommand", "ChangeOfCheckpoint", "ChangeOfRun", "ChangeGap", "EventPing"]

SandboxMode = Literal['read-only', 'workspace-write', 'danger-full-access']

Enforcement = Literal['full', 'partial', 'none']

PtcDescriptorTimeout = TypedDict('PtcDescriptorTimeout', {
    'defaultMs': int,
    'maxMs': int,
})

PtcDescriptor = TypedDict('PtcDescriptor', {
    'language': Literal['typescript'],
    'isolation': Literal['process'],
    'timeout': "PtcDescriptorTimeout",
    'sandboxMode': "SandboxMode",
    'enforcement': "Enforcement",
    'enforcementReason': Union[str, None],
    'executionInstructions': str,
})

BindingErrorClass = TypedDict('BindingErrorClass', {
    'name': str,
    'memberNameProperty': str,
})

_BindingRequired = TypedDict('_BindingRequired', {
    'global': str,
    'functions': List[str],
})

_BindingOptional = TypedDict('_BindingOptional', {
    'errorClass': "BindingErrorClass",
}, total=False)


class Binding(_BindingRequired, _BindingOptional):
    pass


RunCreateSandboxPolicy = TypedDict('RunCreateSandboxPolicy', {
    'mode': Literal['read-only', 'workspace-write', 'danger-full-access', None],
    'workspaceRoot': Union[str, None],
    'network': Literal['none', 'host', None],
}, total=False)

RunCreateLimits = TypedDict('RunCreateLimits', {
    'memoryBytes': Union[int, None],
    'pids': Union[int, None],
    'cpuMs': Union[int, None],
    'heapBytes': Union[int, None],
    'maxOutputBytes': Union[int, None],
}, total=False)

_RunCreateRequired = TypedDict('_RunCreateRequired', {
    'program': str,
    'description': str,
    'bindings': List["Binding"],
})

_RunCreateOptional = TypedDict('_RunCreateOptional', {
    'cwd': Union[str, None],
    'timeoutMs': Union[float, None],
    'sandboxPolicy': Union["RunCreateSandboxPolicy", None],
    'executionId': Union[str, None],
    'runId': Union[str, None],
    'limits': Union["RunCreateLimits", None],
    'metadata': Union["Metadata", None],
    'labels': Union[Dict[str, str], None],
}, total=False)


class RunCreate(_RunCreateRequired, _RunCreateOptional):
    pass


RunSpecSandboxPolicy = TypedDict('RunSpecSandboxPolicy', {
    'mode': "SandboxMode",
    'workspaceRoot': Union[str, None],
    'network': Literal['none', 'host'],
})

RunSpecLimits = TypedDict('RunSpecLimits', {
    'memoryBytes': int,
    'pids': int,
    'cpuMs': int,
    'heapBytes': int,
    'maxOutputBytes': int,
})

RunSpec = TypedDict('RunSpec', {
    'program': str,
    'description': str,
    'bindings': List["Binding"],
    'cwd': str,
    'timeoutMs': Union[int, None],
    'sandboxPolicy': "RunSpecSandboxPolicy",
    'limits': "RunSpecLimits",
    'executionId': Union[str, None],
    'runId': Union[str, None],
    'metadata': Dict[str, Any],
    'labels': Dict[str, str],
})

CallCounts = TypedDict('CallCounts', {
    'total': int,
    'pending': int,
    'answered': int,
    'cancelled': int,
})

RunErrorKind = Literal['exception', 'timeout', 'abort', 'worker-exit', 'invalid-output', 'output-limit', 'protocol', 'sandbox-unavailable']

RunState = Literal['starting', 'running', 'settled']

RunResultError = TypedDict('RunResultError', {
    'kind': "RunErrorKind",
    'message': str,
})

_RunResultSandboxRequired = TypedDict('_RunResultSandboxRequired', {
    'mode': "SandboxMode",
    'denied': bool,
})

_RunResultSandboxOptional = TypedDict('_RunResultSandboxOptional', {
    'enforcement': "Enforcement",
}, total=False)


class RunResultSandbox(_RunResultSandboxRequired, _RunResultSandboxOptional):
    pass


_RunResultRequired = TypedDict('_RunResultRequired', {
    'logs': List[str],
    'sandbox': "RunResultSandbox",
})

_RunResultOptional = TypedDict('_RunResultOptional', {
    'value': Any,
    'error': "RunResultError",
}, total=False)


class RunResult(_RunResultRequired, _RunResultOptional):
    pass


Run = TypedDict('Run', {
    'runId': "Id",
    'state': "RunState",
    'description': str,
    'startedAt': "TimestampOrNull",
    'completedAt': "TimestampOrNull",
    'calls': "CallCounts",
    'outcome': "RunOutcome",
    'spec': "RunSpec",
    'result': Union["RunResult", None],
})

RunSummary = TypedDict('RunSummary', {
    'runId': "Id",
    'state': "RunState",
    'description': str,
    'startedAt': "TimestampOrNull",
    'completedAt': "TimestampOrNull",
    'calls': "CallCounts",
    'outcome': "RunOutcome",
})

RunList = TypedDict('RunList', {
    'items': List["RunSummary"],
    'nextCursor': "NextCursor",
})

_CallRequired = TypedDict('_CallRequired', {
    'callId': int,
    'global': str,
    'function': str,
    'at': "Timestamp",
})

_CallOptional = TypedDict('_CallOptional', {
    'argument': Any,
}, total=False)


class Call(_CallRequired, _CallOptional):
    pass


CallList = TypedDict('CallList', {
    'items': List["Call"],
    'nextCursor': None,
})

_CallAnswer1Required = TypedDict('_CallAnswer1Required', {
    'ok': Literal[True],
})

_CallAnswer1Optional = TypedDict('_CallAnswer1Optional', {
    'value': Any,
}, total=False)


class CallAnswer1(_CallAnswer1Required, _CallAnswer1Optional):
    pass


CallAnswer2 = TypedDict('CallAnswer2', {
    'ok': Literal[False],
    'message': str,
})

CallAnswer = Union["CallAnswer1", "CallAnswer2"]

CallAnswered = TypedDict('CallAnswered', {
    'callId': int,
    'state': Literal['answered'],
})

RunEventStarted = TypedDict('RunEventStarted', {
    'seq': int,
    'type': Literal['started'],
    'at': "Timestamp",
})

RunEventLog = TypedDict('RunEventLog', {
    'seq': int,
    'type': Literal['log'],
    'at': "Timestamp",
    'text': str,
})

_RunEventCallRequired = TypedDict('_RunEventCallRequired', {
    'seq': int,
    'type': Literal['call'],
    'at': "Timestamp",
    'callId': int,
    'global': str,
    'function': str,
})

_RunEventCallOptional = TypedDict('_RunEventCallOptional', {
    'argument': Any,
}, total=False)


class RunEventCall(_RunEventCallRequired, _RunEventCallOptional):
    pass


RunEventCallSettled = TypedDict('RunEventCallSettled', {
    'seq': int,
    'type': Literal['call-settled'],
    'at': "Timestamp",
    'callId': int,
    'state': Literal['answered', 'cancelled'],
})

RunEventResult = TypedDict('RunEventResult', {
    'seq': int,
    'type': Literal['result'],
    'at': "Timestamp",
    'result': "RunResult",
})

RunEvent = Union["RunEventStarted", "RunEventLog", "RunEventCall", "RunEventCallSettled", "RunEventResult", "EventPing"]

CommandList = TypedDict('CommandList', {
    'items': List["CommandSummary"],
    'nextCursor': "NextCursor",
})

FileMode = str

FileType = Literal['file', 'directory', 'symlink', 'special']

FileItem = TypedDict('FileItem', {
    'path': str,
    'type': "FileType",
    'size': int,
    'mode': "FileMode",
    'mtime': "Timestamp",
    'target': Union[str, None],
})

FileItemBytes = TypedDict('FileItemBytes', {
    'pathBase64': str,
    'type': "FileType",
    'size': int,
    'mode': "FileMode",
    'mtime': "Timestamp",
    'targetBase64': Union[str, None],
})

FileList = TypedDict('FileList', {
    'items': List[Union["FileItem", "FileItemBytes"]],
})

CheckpointCreate = TypedDict('CheckpointCreate', {
    'checkpointId': Union["Id", None],
    'metadata': Union["Metadata", None],
    'share': Union[bool, None],
}, total=False)

CheckpointRestore = TypedDict('CheckpointRestore', {
    'executionId': Union["Id", None],
    'host': Union["HostName", None],
    'owner': Union["Owner", None],
    'labels': Union["Labels", None],
}, total=False)

Durability = Literal['local', 'uploading', 'durable', 'failed']

SharedError = TypedDict('SharedError', {
    'code': "ErrorCode",
    'detail': str,
    'retryable': bool,
})

SharedCheckpoint = TypedDict('SharedCheckpoint', {
    'uri': str,
    'digest': "Digest",
    'uploadedAt': "TimestampOrNull",
    'bytesSent': "Count",
    'bytesTotal': "Count",
    'error': Union["SharedError", None],
})

SharedItem = TypedDict('SharedItem', {
    'checkpointId': "Id",
    'uri': str,
    'digest': "Digest",
    'uploadedAt': "TimestampOrNull",
    'createdAt': "TimestampOrNull",
    'sourceExecutionId': Union["Id", None],
    'sizeBytes': Union["Count", None],
    'archiveBytes': Union["Count", None],
    'image': Union["UnpinnedImageReference", None],
    'metadata': Union["Metadata", None],
    'problem': Union[str, None],
})

SharedList = TypedDict('SharedList', {
    'items': List["SharedItem"],
    'nextCursor': "NextCursor",
})

SharedStore = TypedDict('SharedStore', {
    'endpoint': str,
    'region': str,
    'bucket': str,
    'prefix': Union[str, None],
    'pathStyle': bool,
    'conditionalWrites': Union[bool, None],
})

Checkpoint = TypedDict('Checkpoint', {
    'checkpointId': "Id",
    'sourceExecutionId': "Id",
    'createdAt': "Timestamp",
    'sizeBytes': int,
    'archiveBytes': "Count",
    'archiveDigest': "Digest",
    'entries': "Count",
    'skipped': int,
    'image': "UnpinnedImageReference",
    'resources': "Resources",
    'metadata': "Metadata",
    'durability': "Durability",
    'shared': Union["SharedCheckpoint", None],
})

Bytes = Any

CheckpointImport = TypedDict('CheckpointImport', {
    'uri': str,
    'digest': "Digest",
})

ManifestArchive = TypedDict('ManifestArchive', {
    'digest': "Digest",
    'bytes': "Count",
    'compression': Literal['zstd', 'none'],
    'format': Literal['pax'],
})

Manifest = TypedDict('Manifest', {
    'version': Literal[1],
    'checkpointId': "Id",
    'sourceExecutionId': "Id",
    'sourceIncarnation': int,
    'createdAt': "Timestamp",
    'image': "UnpinnedImageReference",
    'imageDigests': List[str],
    'resources': "Resources",
    'network': "Network",
    'environment': "Environment",
    'metadata': "Metadata",
    'contentBytes': "Count",
    'entries': "Count",
    'skipped': "Count",
    'archive': "ManifestArchive",
    'files': "Digest",
})

CheckpointPending = TypedDict('CheckpointPending', {
    'checkpointId': "Id",
    'sourceExecutionId': "Id",
    'createdAt': "Timestamp",
    'sizeBytes': None,
    'archiveBytes': None,
    'archiveDigest': None,
    'entries': None,
    'skipped': None,
    'image': "UnpinnedImageReference",
    'resources': "Resources",
    'metadata': "Metadata",
    'durability': Literal['local'],
    'shared': None,
})

CheckpointList = TypedDict('CheckpointList', {
    'items': List["Checkpoint"],
    'nextCursor': "NextCursor",
})

Verification = TypedDict('Verification', {
    'ok': bool,
    'problems': List[str],
})

Image = TypedDict('Image', {
    'reference': "ImageReference",
    'host': "HostName",
    'digests': List["Digest"],
    'sizeBytes': "Count",
})

ImageList = TypedDict('ImageList', {
    'items': List["Image"],
})

_ImageFetchRequired = TypedDict('_ImageFetchRequired', {
    'reference': "ImageReference",
})

_ImageFetchOptional = TypedDict('_ImageFetchOptional', {
    'host': Union["HostName", None],
}, total=False)


class ImageFetch(_ImageFetchRequired, _ImageFetchOptional):
    pass


LimitRange = TypedDict('LimitRange', {
    'min': "Count",
    'max': "Count",
})

CpuRange = TypedDict('CpuRange', {
    'min': float,
    'max': float,
})

HostLimits = TypedDict('HostLimits', {
    'cpus': "CpuRange",
    'memoryBytes': "LimitRange",
    'diskBytes': "LimitRange",
    'pids': "LimitRange",
    'runtimeMs': "LimitRange",
    'maxOutputBytes': "LimitRange",
})

Engine = TypedDict('Engine', {
    'version': str,
    'apiVersion': str,
})

Host = TypedDict('Host', {
    'name': "HostName",
    'state': Literal['available', 'unavailable'],
    'reason': Union[str, None],
    'isDefault': bool,
    'engine': Union["Engine", None],
    'limits': "HostLimits",
    'enforces': List[str],
})

CapacityLimits = TypedDict('CapacityLimits', {
    'executions': "CountOrNull",
    'cpus': Union[float, None],
    'memoryBytes': "CountOrNull",
    'diskBytes': "CountOrNull",
    'runs': Union[int, None],
})

Capacity = TypedDict('Capacity', {
    'executions': "Count",
    'commandsRunning': "Count",
    'commandsQueued': "Count",
    'cpus': float,
    'memoryBytes': "Count",
    'diskBytes': "Count",
    'limits': "CapacityLimits",
})

Quota = TypedDict('Quota', {
    'limit': Union[float, None],
    'used': Union[float, None],
})

Quotas = TypedDict('Quotas', {
    'executions': "Quota",
    'cpus': "Quota",
    'memoryBytes': "Quota",
    'diskBytes': "Quota",
    'commands': "Quota",
    'runs': "Quota",
    'storedBytes': "Quota",
    'requestsPerSecond': "Quota",
})

Reconciliation = TypedDict('Reconciliation', {
    'startedAt': "Timestamp",
    'completedAt': "TimestampOrNull",
    'adopted': "Count",
    'hostLost': "Count",
    'expired': "Count",
    'destroyedUnrecorded': "Count",
    'thawed': "Count",
    'terminationsFinished': "Count",
    'checkpointsRemoved': "Count",
    'transcriptsRepaired': "Count",
    'foreignLeftAlone': "Count",
    'problems': List[str],
})

Service = TypedDict('Service', {
    'version': str,
    'instanceId': str,
    'hosts': List["Host"],
    'capacity': "Capacity",
    'quotas': "Quotas",
    'lastReconciliation': Union["Reconciliation", None],
    'sharedStore': Union["SharedStore", None],
})

Health = TypedDict('Health', {
    'status': Literal['ok'],
})

Readiness = TypedDict('Readiness', {
    'status': Literal['ready'],
})

Cause = TypedDict('Cause', {
    'code': "ErrorCode",
    'detail': str,
})

_ProblemRequired = TypedDict('_ProblemRequired', {
    'type': str,
    'title': str,
    'status': int,
    'detail': str,
    'code': "ErrorCode",
    'retryable': bool,
    'requestId': str,
})

_ProblemOptional = TypedDict('_ProblemOptional', {
    'field': str,
    'phase': Literal['validate', 'create', 'start', 'import', 'exec', 'export', 'load', 'upload', 'cleanup'],
    'causes': List["Cause"],
}, total=False)


class Problem(_ProblemRequired, _ProblemOptional):
    pass

