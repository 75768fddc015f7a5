"""The execution host's operations over HTTP."""
import base64
import json
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Union, cast
from urllib.parse import quote

from . import program as programs
from .abort import Abort, AbortListener, or_undo
from .schema import (Checkpoint, CheckpointCreate, CheckpointRestore, Command, CommandCreate,
                     CommandEvent, Execution, ExecutionCreate, RunResult)
from .streams import Event, follow_events
from .transport import Request, Retry, Transport, id_of, random_id

JSON_TYPE = {"Content-Type": "application/json"}
BYTES_TYPE = {"Content-Type": "application/octet-stream"}
STREAM_TYPE = {"Accept": "application/x-ndjson"}


def output_of(event: Mapping[str, Any]) -> bytes:
    """The bytes of an event of output; none of any other."""
    if event["type"] not in ("stdout", "stderr"):
        return b""
    if "data" in event:
        return cast(str, event["data"]).encode()
    return base64.b64decode(event["dataBase64"])


def execution_path(execution_id: str) -> str:
    return f"/v1/executions/{quote(execution_id, safe='')}"


def command_path(execution_id: str, command_id: str) -> str:
    return f"{execution_path(execution_id)}/commands/{quote(command_id, safe='')}"


def checkpoint_path(checkpoint_id: str) -> str:
    return f"/v1/checkpoints/{quote(checkpoint_id, safe='')}"


class HttpExecutionHost:
    """Requests, results and codes are those of the service; what it refuses is raised as
    ExecutionHostError. Calls that lost their answer are made again under the same idempotency key, so
    that nothing runs twice. Any thread may call, and several may at once.

    `base_url` is http, https or `unix:PATH`; `fencing_token` goes with every mutation that names no
    other; `abort` of a call ends it from another thread."""

    def __init__(self, base_url: str, token: Optional[str] = None,
                 fencing_token: Optional[int] = None, retry: Retry = Retry()) -> None:
        self.transport = Transport(base_url, token, retry)
        self._fencing_token = fencing_token

    # The operations.

    def provision(self, request: ExecutionCreate, *, abort: Optional[Abort] = None,
                  fencing_token: Optional[int] = None,
                  idempotency_key: Optional[str] = None) -> Execution:
        """An abort terminates what was being made and raises Aborted."""
        execution_id = id_of(request, "executionId", "exec")
        body = {**request, "executionId": execution_id}
        headers = self._headers(fencing_token, idempotency_key)
        return or_undo(abort, lambda: self.terminate(execution_id, fencing_token=fencing_token),
                       True, lambda: self._post("/v1/executions", body, headers, abort))

    def exec(self, execution_id: str, request: CommandCreate, *, abort: Optional[Abort] = None,
             fencing_token: Optional[int] = None,
             idempotency_key: Optional[str] = None) -> Command:
        """Runs a program to its end. How it ended is a result: a non-zero exit, a timeout, an overflow
        are in `termination`, and so is an abort, which destroys the whole execution."""
        command_id = id_of(request, "commandId", "cmd")
        body = {**request, "commandId": command_id}
        headers = self._headers(fencing_token, idempotency_key)
        with AbortListener(abort, lambda: self.abort(execution_id, command_id,
                                                     fencing_token=fencing_token)):
            path = f"{execution_path(execution_id)}/commands"
            return self._post(path, body, headers, abort)

    def exec_stream(self, execution_id: str, request: CommandCreate, *,
                    abort: Optional[Abort] = None, fencing_token: Optional[int] = None,
                    idempotency_key: Optional[str] = None) -> Iterator[CommandEvent]:
        """The same as a generator: starts with the iteration and yields every event once, through cuts
        and restarts of the service; the last is `exit`. Leaving it early leaves the command running; an
        abort ends it, and the stream with it."""
        command_id = id_of(request, "commandId", "cmd")
        body = json.dumps({**request, "commandId": command_id})
        headers = {**self._headers(fencing_token, idempotency_key), **JSON_TYPE, **STREAM_TYPE}
        first = Request("POST", f"{execution_path(execution_id)}/commands", body=body,
                        headers=headers)
        with AbortListener(abort, lambda: self.abort(execution_id, command_id,
                                                     fencing_token=fencing_token)):
            yield from self._events(execution_id, command_id, first, -1)

    def checkpoint(self, execution_id: str, request: Optional[CheckpointCreate] = None, *,
                   abort: Optional[Abort] = None, fencing_token: Optional[int] = None,
                   idempotency_key: Optional[str] = None) -> Checkpoint:
        """An abort waits for the end of the making, deletes what was made, and raises Aborted."""
        checkpoint_id = id_of(request, "checkpointId", "checkpoint")
        body = {**(request or {}), "checkpointId": checkpoint_id}
        headers = self._headers(fencing_token, idempotency_key)
        path = f"{execution_path(execution_id)}/checkpoints"
        return or_undo(abort, lambda: self.delete_checkpoint(checkpoint_id), False,
                       lambda: self._post(path, body, headers, abort))

    def restore(self, checkpoint_id: str, request: Optional[CheckpointRestore] = None, *,
                abort: Optional[Abort] = None, fencing_token: Optional[int] = None,
                idempotency_key: Optional[str] = None) -> Execution:
        """An abort terminates what was being made and raises Aborted."""
        execution_id = id_of(request, "executionId", "exec")
        body = {**(request or {}), "executionId": execution_id}
        headers = self._headers(fencing_token, idempotency_key)
        path = f"{checkpoint_path(checkpoint_id)}/restore"
        return or_undo(abort, lambda: self.terminate(execution_id, fencing_token=fencing_token),
                       True, lambda: self._post(path, body, headers, abort))

    def terminate(self, execution_id: str, *, fencing_token: Optional[int] = None) -> None:
        """Returns when nothing of it is left; also for one that never was."""
        self._delete(execution_path(execution_id), fencing_token)

    def reclaim(self, execution_id: str, *, fencing_token: Optional[int] = None,
                idempotency_key: Optional[str] = None) -> None:
        """Removes by identity alone what is left of it, whichever service made it."""
        headers = self._headers(fencing_token, idempotency_key)
        self.transport.content(Request("POST", f"{execution_path(execution_id)}/reclaim",
                                     headers=headers))

    def run_program(self, program: Mapping[str, Any], tools: programs.Tools = {}, *,
                    error_classes: Mapping[str, Any] = {}, abort: Optional[Abort] = None,
                    on_log: Optional[Callable[[str], None]] = None,
                    idempotency_key: Optional[str] = None) -> RunResult:
        """Runs a program of a model: the fields of a run's request without `bindings`, which are made
        of `tools` (functions by namespace and name). A tool is called with the argument on a thread of
        its own; what it returns has to be lossless JSON or NO_VALUE, what it raises is thrown in the
        program. An abort's result is an error of the kind `abort`."""
        return programs.run_program(self.transport, program, tools, error_classes, abort, on_log,
                                    idempotency_key)

    # Looking, and talking to a command.

    def execution(self, execution_id: str) -> Execution:
        return cast(Execution, self.transport.json(Request("GET", execution_path(execution_id))))

    def command(self, execution_id: str, command_id: str, wait_ms: Optional[int] = None) -> Command:
        path = command_path(execution_id, command_id)
        return cast(Command, self.transport.json(Request("GET", path, {"waitMs": wait_ms})))

    def follow(self, execution_id: str, command_id: str, after: int = -1) -> Iterator[CommandEvent]:
        """The events of a command that runs or has ended, behind `after`."""
        return self._events(execution_id, command_id, None, after)

    def abort(self, execution_id: str, command_id: str, *,
              fencing_token: Optional[int] = None) -> None:
        """Destroys the whole execution of the command; nothing happens where it has ended."""
        self._delete(command_path(execution_id, command_id), fencing_token)

    def signal(self, execution_id: str, command_id: str, signal: str, *,
               fencing_token: Optional[int] = None) -> None:
        headers = {**self._headers(fencing_token, None), **JSON_TYPE}
        self.transport.content(Request("POST", f"{command_path(execution_id, command_id)}/signal",
                                     body=json.dumps({"signal": signal}), headers=headers))

    def write_stdin(self, execution_id: str, command_id: str, data: Union[str, bytes], *,
                    eof: bool = False, fencing_token: Optional[int] = None) -> None:
        """For a command with `stdinOpen`."""
        headers = {**self._headers(fencing_token, None), **BYTES_TYPE}
        self.transport.content(Request("POST", f"{command_path(execution_id, command_id)}/stdin",
                                     {"eof": eof}, data, headers))

    # Files and checkpoints.

    def read_file(self, execution_id: str, path: str) -> bytes:
        target = f"{execution_path(execution_id)}/files/content"
        return self.transport.content(Request("GET", target, {"path": path}))

    def write_file(self, execution_id: str, path: str, data: Union[str, bytes], *,
                   mode: Optional[str] = None, fencing_token: Optional[int] = None) -> None:
        """Whole or not at all; `mode` is octal, like "0644"."""
        headers = {**self._headers(fencing_token, None), **BYTES_TYPE}
        target = f"{execution_path(execution_id)}/files/content"
        self.transport.content(Request("PUT", target, {"path": path, "mode": mode}, data, headers))

    def delete_checkpoint(self, checkpoint_id: str) -> None:
        self._delete(checkpoint_path(checkpoint_id), None)

    # Requests.

    def _headers(self, fencing_token: Optional[int],
                 idempotency_key: Optional[str]) -> Dict[str, Optional[str]]:
        fencing = self._fencing_token if fencing_token is None else fencing_token
        key = random_id("key") if idempotency_key is None else idempotency_key
        return {"Idempotency-Key": key,
                "Fencing-Token": None if fencing is None else str(fencing)}

    def _post(self, path: str, body: Mapping[str, Any], headers: Dict[str, Optional[str]],
              abort: Optional[Abort]) -> Any:
        """An abort does not cut it: what was aborted says so itself."""
        return self.transport.json(Request("POST", path, body=json.dumps(body),
                                           headers={**headers, **JSON_TYPE}, last_try=abort))

    def _delete(self, path: str, fencing_token: Optional[int]) -> None:
        fencing = self._headers(fencing_token, None)["Fencing-Token"]
        self.transport.content(Request("DELETE", path, headers={"Fencing-Token": fencing}))

    def _events(self, execution_id: str, command_id: str, first: Optional[Request],
                after: int) -> Iterator[CommandEvent]:
        path = f"{command_path(execution_id, command_id)}/events"

        def resume(behind: int) -> Request:
            query = {"after": behind if behind >= 0 else None}
            return Request("GET", path, query, headers=STREAM_TYPE)

        events: Iterator[Event] = follow_events(self.transport, first, resume, "exit", after)
        return cast(Iterator[CommandEvent], events)
