"""Runs of programs, and the clients that answer their calls."""
import json
import pathlib
import threading
import uuid

from . import client
from .actions import known
from .match import Mismatch, match

BINDINGS = [{"global": "host", "functions": ["f", "g", "echo"]}]


def program_of(step):
    """A program may be a list of lines."""
    text = step["ptc"]
    return "\n".join(text) if isinstance(text, list) else text


class Answerers:
    """Clients that answer the calls of one run by a rule for each function, `workers` at once."""

    def __init__(self, row, run, rules, workers):
        self.row = row
        self.run = run
        self.rules = rules
        self.over = threading.Event()
        self.errors = []
        self.last = 0
        self.queue = []
        self.changed = threading.Condition()
        self.threads = [threading.Thread(target=self.guard, args=(self.collect,), daemon=True)]
        self.threads += [threading.Thread(target=self.guard, args=(self.work,), daemon=True)
                         for _ in range(workers)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.over.set()
        with self.changed:
            self.changed.notify_all()
        for thread in self.threads:
            thread.join(60)
        if self.errors:
            raise Mismatch(self.errors[0])

    def guard(self, function):
        try:
            function()
        except Exception as error:  # the run's own thread reports it
            if not self.over.is_set():
                self.errors.append(f"{type(error).__name__}: {error}")

    def collect(self):
        """Long polls; a run that is not there yet is waited for."""
        while not self.over.is_set():
            answer = self.row.call_once({
                "call": f"GET /v1/ptc/runs/{self.run}/calls?state=pending&after={self.last}"
                        "&waitMs=2000", "expect": {"status": [200, 404]}})
            if answer.status == 404:
                self.over.wait(0.01)
                continue
            calls = answer.json()["items"]
            if not calls:
                self.over.wait(0.01)
                continue
            self.last = calls[-1]["callId"]
            with self.changed:
                self.queue += calls
                self.changed.notify_all()

    def next(self):
        with self.changed:
            while not self.queue and not self.over.is_set():
                self.changed.wait()
            return self.queue.pop(0) if self.queue else None

    def work(self):
        while True:
            call = self.next()
            if call is None:
                return
            body = self.rules[call["function"]]
            if body == "echo":
                body = {"ok": True, "value": call["argument"]}
            self.row.call_once({"call": f"POST /v1/ptc/runs/{self.run}/calls/{call['callId']}",
                                "json": body, "expect": {"status": 200}})


def run_program(row, step):
    """{"ptc": program, …}: see README.md."""
    known(step, "ptc", "with", "answers", "workers", "value", "logs", "kind", "message", "denied",
          "result", "counts", "expect", "save", "query", "headers", "maxMs", "minMs", "async")
    run = f"run-{uuid.uuid4().hex[:12]}"
    body = {"program": row.fill(program_of(step)), "description": "a row", "bindings": [],
            "timeoutMs": 60000,
            **row.fill(step.get("with", {}))}
    answers = row.fill(step.get("answers"))
    if answers is not None and not body["bindings"]:
        body["bindings"] = BINDINGS
    run = body.setdefault("runId", run)
    row.set("run", run)
    answerers = Answerers(row, run, answers, step.get("workers", 1)) if answers else None
    if answerers:
        answerers.start()
    try:
        answer = post(row, step, body)
    finally:
        if answerers:
            answerers.stop()
    if "expect" not in step:
        check_result(row, step, answer.json())


def post(row, step, body):
    call = {"call": "POST /v1/ptc/runs", "json": {"$literal": body},
            "expect": step.get("expect", {"status": 201, **{
                key: step[key] for key in ("maxMs", "minMs") if key in step}}),
            "save": step.get("save", {})}
    for key in ("query", "headers"):
        if key in step:
            call[key] = step[key]
    return row.call_once(call)


def check_result(row, step, run):
    match("settled", run["state"], "state")
    result = run["result"]
    kind = result.get("error", {}).get("kind")
    wanted = row.fill(step.get("kind"))
    if kind != wanted:
        raise Mismatch(f"expected {wanted}, got {json.dumps(result)[:1500]}")
    match(wanted or "completed", run["outcome"], "outcome")
    if wanted and "value" in result:
        raise Mismatch("a failed run has a value")
    found = {"value": result.get("value"), "logs": result["logs"],
             "message": result.get("error", {}).get("message"),
             "denied": result["sandbox"]["denied"], "result": result, "counts": run["calls"]}
    for key, value in found.items():
        if key in step:
            match(row.fill(step[key]), value, key)


# Values that no reader with a stack can take.

def deep(row, step):
    """{"ptcDeep": N}: nothing of it is parsed here, so only the brackets are counted."""
    known(step, "ptcDeep")
    depth = step["ptcDeep"]
    run = f"deep-{row.variables['u']}"
    program = (f"let v = []; for (let i = 1; i < {depth}; i++) v = [v];"
               "const back = await host.f(v); return back;")
    body = json.dumps({"program": program, "description": "deep", "runId": run,
                       "bindings": [{"global": "host", "functions": ["f"]}]}).encode()
    path = f"/v1/ptc/runs/{run}"
    text = {"Content-Type": "application/json"}
    send(row, "POST", "/v1/ptc/runs?wait=false", text, body, 202)
    calls = send(row, "GET", f"{path}/calls?waitMs=30000", {}, None, 200)
    brackets(calls, depth + 1)
    answer = b'{"ok":true,"value":' + b"[" * depth + b"]" * depth + b"}"
    send(row, "POST", f"{path}/calls/1", text, answer, 200)
    brackets(send(row, "GET", f"{path}?waitMs=30000", {}, None, 200).split(b'"result":')[-1],
             depth + 1)
    brackets(send(row, "GET", f"{path}/events", {}, None, 200), 2 * depth + 1)


def send(row, method, path, headers, body, status):
    answer = client.call(row.service.address, method, path, {**headers, **row.authorization()},
                         body)
    if answer.status != status:
        raise Mismatch(f"{method} {path}: expected {status}, got {answer.brief()}")
    return answer.body


def brackets(body, least):
    """One more than the value's own at most for the list around it and the logs."""
    for bracket in (b"[", b"]"):
        if body.count(bracket) < least:
            raise Mismatch(f"{body.count(bracket)} of {bracket!r}, expected {least}: {body[:300]}")


def no_process(row, step):
    """{"noProcess": text}: none on this machine has it in its command line."""
    known(step, "noProcess")
    text = row.fill(step["noProcess"]).encode()
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if text in line:
            raise Mismatch(f"still there: {line[:200]!r}")


ACTIONS = {"ptc": run_program, "ptcDeep": deep, "noProcess": no_process}
