"""Programs of a model, whose calls are answered by functions."""
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional
from urllib.parse import quote

from .abort import Abort, AbortListener
from .errors import PROTOCOL, ExecutionHostError
from .losslessjson import dumps
from .schema import RunResult
from .streams import Event, follow_events
from .transport import Request, Transport, id_of, random_id

Tool = Callable[..., Any]
Tools = Mapping[str, Mapping[str, Tool]]
TOO_LATE = {"PTC_CALL_SETTLED", "PTC_RUN_SETTLED", "PTC_CALL_NOT_FOUND", "PTC_RUN_NOT_FOUND"}
JSON_TYPE = {"Content-Type": "application/json"}


class _NoValue:
    """What `undefined` is: not there."""

    def __repr__(self) -> str:
        return "NO_VALUE"


NO_VALUE = _NoValue()


class ToolContext:
    """Of one call; `cancelled` is set when nobody waits for its answer any more."""

    def __init__(self, run_id: str, call_id: int) -> None:
        self.run_id = run_id
        self.call_id = call_id
        self.cancelled = threading.Event()


def with_context(tool: Callable[[Any, ToolContext], Any]) -> Tool:
    """A tool that is called with the argument and a ToolContext, not with the argument alone."""
    setattr(tool, "_exechost_context", True)
    return tool


def run_path(run_id: str) -> str:
    return f"/v1/ptc/runs/{quote(run_id, safe='')}"


def abort_run(transport: Transport, run_id: str, reason: str) -> None:
    transport.content(Request("DELETE", run_path(run_id), {"reason": reason}))


def bindings_of(tools: Tools, error_classes: Mapping[str, Any]) -> List[Dict[str, Any]]:
    return [{"global": name, "functions": list(functions),
             **({"errorClass": error_classes[name]} if name in error_classes else {})}
            for name, functions in tools.items()]


class _Server:
    """Serves one run: its events in, the answers to its calls out, each call on its own thread."""

    def __init__(self, transport: Transport, run_id: str, tools: Tools,
                 on_log: Optional[Callable[[str], None]]) -> None:
        self.transport = transport
        self.run_id = run_id
        self.tools = tools
        self.on_log = on_log
        self.calls: Dict[int, ToolContext] = {}
        self.failure: Optional[BaseException] = None

    def serve(self, first: Request) -> RunResult:
        result: Optional[RunResult] = None
        path = f"{run_path(self.run_id)}/events"
        headers = {"Accept": "application/x-ndjson"}

        def resume(after: int) -> Request:
            return Request("GET", path, {"after": after if after >= 0 else None}, headers=headers)

        try:
            for event in follow_events(self.transport, first, resume, "result", -1):
                if event["type"] == "result":
                    result = event["result"]
                else:
                    self.take(event)
        except BaseException:
            self.give_up()
            raise
        finally:
            for context in self.calls.values():
                context.cancelled.set()
        if self.failure:
            raise self.failure
        if result is None:
            raise ExecutionHostError(PROTOCOL, "A run had no result.")
        return result

    def give_up(self) -> None:
        try:
            abort_run(self.transport, self.run_id, "the client failed")
        except ExecutionHostError:
            pass  # it ends by its own deadline

    def take(self, event: Event) -> None:
        if event["type"] == "log" and self.on_log:
            self.on_log(event["text"])
        elif event["type"] == "call-settled":
            context = self.calls.pop(event["callId"], None)
            if context:
                context.cancelled.set()
        elif event["type"] == "call":
            context = self.calls[event["callId"]] = ToolContext(self.run_id, event["callId"])
            threading.Thread(target=self.answer, args=(event, context), daemon=True).start()

    def answer(self, event: Event, context: ToolContext) -> None:
        try:
            self.post(event["callId"], self.answer_text(event, context))
        except ExecutionHostError as error:
            if error.code in TOO_LATE:
                return
            if error.code in ("PAYLOAD_TOO_LARGE", "PTC_INVALID_REQUEST"):
                self.refuse(event["callId"], error)
            else:
                self.fail(error)

    def refuse(self, call_id: int, error: ExecutionHostError) -> None:
        try:
            self.post(call_id, refusal(str(error)))
        except ExecutionHostError as second:
            if second.code not in TOO_LATE:
                self.fail(second)

    def fail(self, error: ExecutionHostError) -> None:
        """The run ends, and then its caller is told."""
        self.failure = error
        self.give_up()

    def answer_text(self, event: Event, context: ToolContext) -> str:
        try:
            functions = self.tools.get(event["global"], {})
            if event["function"] not in functions:
                raise LookupError(f"{event['global']} has no tool {event['function']}")
            tool = functions[event["function"]]
            more = (context,) if getattr(tool, "_exechost_context", False) else ()
            value = tool(event.get("argument", NO_VALUE), *more)
            return '{"ok":true}' if value is NO_VALUE else f'{{"ok":true,"value":{dumps(value)}}}'
        except Exception as error:  # every failure of a tool is its answer
            return refusal(str(error) or type(error).__name__)

    def post(self, call_id: int, body: str) -> None:
        path = f"{run_path(self.run_id)}/calls/{call_id}"
        self.transport.content(Request("POST", path, body=body, headers=JSON_TYPE))


def refusal(message: str) -> str:
    return dumps({"ok": False, "message": message})


def run_program(transport: Transport, program: Mapping[str, Any], tools: Tools,
                error_classes: Mapping[str, Any], abort: Optional[Abort],
                on_log: Optional[Callable[[str], None]], idempotency_key: Optional[str]) -> RunResult:
    run_id = id_of(program, "runId", "run")
    request = {"description": "program", **program, "runId": run_id,
               "bindings": bindings_of(tools, error_classes)}
    headers = {**JSON_TYPE, "Accept": "application/x-ndjson",
               "Idempotency-Key": random_id("key") if idempotency_key is None else idempotency_key}
    first = Request("POST", "/v1/ptc/runs", body=dumps(request), headers=headers)
    server = _Server(transport, run_id, tools, on_log)
    reason = (lambda: abort.reason) if abort else (lambda: "aborted")
    with AbortListener(abort, lambda: abort_run(transport, run_id, reason())):
        return server.serve(first)
