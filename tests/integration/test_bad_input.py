"""Bad input of every kind that openapi.yaml knows, to every route: answered by a problem document with the
right code and field, never by a failure of the service's own, never late."""
import itertools
import json
import re
import socket
import http.client

from lib import node
from lib.client import Response
from lib.schema import Document, Violation

from context import Failure
from mutants import Maker

HOSTS = ("native",)
LATE_SECONDS = 30
SHOWN = 25
EXECUTION = {"executionId": "new", "host": "native", "image": "none@sha256:" + "0" * 64,
             "workspace": {"kind": "empty"},
             "resources": {"cpus": 1, "memoryBytes": 64 << 20, "diskBytes": 1 << 20, "pids": 8,
                           "runtimeMs": 60000, "maxOutputBytes": 1024},
             "network": {"mode": "none"}, "environment": {"A": "b"}, "metadata": {"m": 1},
             "labels": {"l": "v"}, "owner": {"ownerId": "o", "fencingToken": 1}}
GIT = {**EXECUTION, "workspace": {"kind": "git-worktree", "repositoryPath": "/none",
                                  "revision": "HEAD"}}
RUN = {"program": "return 1", "description": "d",
       "bindings": [{"global": "g", "functions": ["f"],
                     "errorClass": {"name": "E", "memberNameProperty": "m"}}],
       "cwd": "/", "timeoutMs": 1000,
       "sandboxPolicy": {"mode": "read-only", "network": "none"}, "runId": "new",
       "limits": {"memoryBytes": 1 << 28, "pids": 64, "cpuMs": 1000, "heapBytes": 1 << 26,
                  "maxOutputBytes": 1024},
       "metadata": {"m": 1}, "labels": {"l": "v"}}
# Good bodies. What is bad goes to the execution "live" and the checkpoint "kept", and must do nothing;
# what is good goes to "none", where it is answered 404.
BODIES = {
    "createExecution": [EXECUTION, GIT],
    "updateExecution": [{"labels": {"l": "v"}, "metadata": {"m": 1},
                         "expiresAt": "2030-01-01T00:00:00.000Z"}],
    "setExecutionOwner": [{"ownerId": "o", "fencingToken": 1}],
    "createCommand": [{"commandId": "new", "command": "true", "args": ["a"], "cwd": "d",
                       "environment": {"A": "b"}, "stdin": "in", "stdinOpen": False,
                       "timeoutMs": 1000, "onLimit": {"checkpoint": True}}],
    "signalCommand": [{"signal": "SIGTERM"}],
    "createCheckpoint": [{"checkpointId": "new", "metadata": {"m": 1}, "share": False}],
    "restoreCheckpoint": [{"executionId": "new", "host": "native", "labels": {"l": "v"},
                           "owner": {"ownerId": "o", "fencingToken": 1}}],
    "importCheckpoint": [{"uri": "s3://bucket/key", "digest": "sha256:" + "0" * 64}],
    "fetchImage": [{"reference": EXECUTION["image"], "host": "native"}],
    "resolveRun": [RUN],
    "createRun": [RUN],
    "answerCall": [{"ok": True, "value": 1}, {"ok": False, "message": "m"}],
}
NEEDED = {"removeImage": {"reference": EXECUTION["image"]}}
CODES = {"/resources": {"EXECUTION_RESOURCE_LIMIT"}, "/network": {"EXECUTION_NETWORK_POLICY"},
         "/executionId": {"EXECUTION_INVALID_REQUEST", "PTC_INVALID_REQUEST"}}
BAD_IDS = ("%20", "a%2Fb", "%00", "-x", ".", "x" * 65, "%C3%A9", "a%0Ab")


class Caller:
    """One connection that is kept, and what was wrong with the answers on it."""

    def __init__(self, context):
        self.address = context.service.address
        self.document = Document()
        self.connection = None
        self.count = 0
        self.faults = []

    def send(self, method, target, headers, body):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(*self.address, timeout=LATE_SECONDS)
        connection = self.connection
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        found = Response(answer.status, answer.getheaders(), answer.read(), 0)
        if answer.will_close:
            self.drop()
        return found

    def drop(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def call(self, what, method, target, headers, body):
        """The answer, checked against the document; None where it was none."""
        self.count += 1
        try:
            answer = self.send(method, target, headers, body)
        except (OSError, http.client.HTTPException) as error:
            self.drop()
            self.fault(what, f"no answer: {type(error).__name__} {error}")
            return None
        if answer.status >= 500 and answer.status != 503:
            self.fault(what, answer.brief())
        try:
            self.document.check(method, target.split("?")[0], answer)
        except Violation as violation:
            self.fault(what, f"{violation}: {answer.brief()}")
        return answer

    def fault(self, what, text):
        self.faults.append(f"{what}: {text[:500]}")


class Route:
    """One operation of the document."""

    def __init__(self, caller, method, path, operation, parameters):
        self.caller = caller
        self.maker = Maker(caller.document)
        self.method = method.upper()
        self.path = path
        self.operation = operation
        self.parameters = [caller.document.resolve(one) for one in parameters]
        self.name = operation["operationId"]
        self.target = re.sub(r"\{callId\}", "1", path)
        self.real = self.target.replace("{executionId}", "live").replace("{checkpointId}", "kept")
        self.real = re.sub(r"\{\w+\}", "none", self.real)
        self.target = re.sub(r"\{\w+\}", "none", self.target)
        self.may_lack_body = not (operation.get("requestBody") or {}).get("required", False)
        content = (operation.get("requestBody") or {}).get("content", {})
        self.schema = content.get("application/json", {}).get("schema")
        self.takes_bytes = any(kind != "application/json" for kind in content)

    def call(self, what, target=None, headers=None, body=None):
        return self.caller.call(f"{self.name}: {what}", self.method, target or self.target,
                                headers or {}, body)

    def expect_bad(self, answer, what, pointer, codes=None):
        """400, or 422 for limits and networks, with the place and a code of the place's kind."""
        if answer is None or answer.status >= 500:
            return
        if answer.status not in (400, 422):
            self.caller.fault(f"{self.name}: {what}", f"expected 400: {answer.brief()}")
            return
        problem = answer.json()
        found = problem.get("field")
        if pointer not in ("", "?") and found != pointer and not (found or "").startswith(pointer + "/"):
            self.caller.fault(f"{self.name}: {what}", f"expected field {pointer}: {answer.brief()}")
        if codes and problem["code"] not in codes:
            self.caller.fault(f"{self.name}: {what}", f"expected {codes}: {answer.brief()}")

    def codes(self, pointer):
        top = "/" + pointer.split("/")[1] if pointer.startswith("/") else ""
        if self.path.startswith("/v1/ptc"):
            return {"PTC_INVALID_REQUEST", "EXECUTION_INVALID_REQUEST"}
        return CODES.get(top, {"EXECUTION_INVALID_REQUEST"})

    # --- what is sent ---

    def bodies(self):
        headers = {"Content-Type": "application/json"}
        # One that is not named here is asked for what can be asked without a good body.
        for body in BODIES.get(self.name, [{}]):
            for mutant in self.maker.bodies(self.schema, body):
                if body is GIT and not (mutant.pointer or "").startswith("/workspace/"):
                    continue  # the rest was seen with the other workspace
                left_out = mutant.text == "" and self.may_lack_body
                target = self.target if mutant.pointer is None or left_out else self.real
                answer = self.call(mutant.name, target, headers, mutant.text.encode())
                if mutant.pointer is not None and not left_out:
                    # Which member of the object tells that it is of no kind is free.
                    place = "/workspace" if body is GIT else mutant.pointer
                    self.expect_bad(answer, mutant.name, place, self.codes(mutant.pointer))
            good = json.dumps(body).encode()
            answer = self.call("another media type", headers={"Content-Type": "text/plain"},
                               body=good)
            if answer is not None and answer.status not in (415, 200, 201, 404):
                self.caller.fault(self.name, f"as text/plain: {answer.brief()}")

    def bytes(self):
        for body in (b"", b"\0" * 1024, b"text", b"\x28\xb5\x2f\xfd" * 100, b"\x1f\x8b" * 100):
            for kind in ("application/x-tar", "application/octet-stream"):
                self.call(f"{len(body)} bytes {body[:4]!r} as {kind}",
                          headers={"Content-Type": kind}, body=body)

    def queries(self):
        needed = "".join(f"&{name}={value}" for name, value in NEEDED.get(self.name, {}).items())
        for parameter in self.parameters:
            if parameter["in"] != "query":
                continue
            name = parameter["name"]
            for value, good in self.maker.queries(parameter):
                if good and name == "follow":
                    continue  # that is no end
                what = f"?{name}={value[:40]}"
                answer = self.call(what, f"{self.target}?{name}={escape(value)}{needed}")
                if not good:
                    self.expect_bad(answer, what, f"?{name}")
            self.expect_bad(self.call(f"?{name} twice", f"{self.target}?{name}=1&{name}=1"),
                            f"?{name} twice", "?")
        self.expect_bad(self.call("an unknown parameter", f"{self.target}?surplus=1"),
                        "an unknown parameter", "?surplus")
        for text in ("?%", "?a=%zz", "?=", "?&&", "?a=%00", "?" + "a" * 5000):
            self.call(text[:12], self.target + text)

    def headers(self):
        for name, value in (("Fencing-Token", "x"), ("Fencing-Token", "-1"), ("Fencing-Token", "9" * 30),
                            ("Idempotency-Key", ""), ("Idempotency-Key", "k" * 256),
                            ("Last-Event-ID", "x"), ("Range", "bytes=9-1"), ("Range", "x" * 100),
                            ("If-Range", "x"), ("If-None-Match", "\""), ("X-Request-Id", "\xe9 \t"),
                            ("X-Request-Id", "r" * 1000), ("Accept", "nothing/at-all"),
                            ("traceparent", "00-x"), ("Content-Encoding", "br"),
                            ("Authorization", "Basic eA==")):
            answer = self.call(f"{name}: {value[:20]}", headers={name: value})
            if name == "Fencing-Token" and self.has_header(name) and answer.status != 404:
                self.expect_bad(answer, f"{name}: {value[:20]}", "?")

    def has_header(self, name):
        return any(one["in"] == "header" and one["name"] == name for one in self.parameters)

    def ids(self):
        for parameter, bad in itertools.product(
                [one for one in self.parameters if one["in"] == "path"], BAD_IDS):
            target = self.path.replace("{" + parameter["name"] + "}", bad)
            answer = self.call(f"id {bad[:10]}", re.sub(r"\{\w+\}", "none", target))
            # What is not there may be ended by anybody, whatever it is called.
            if answer is not None and answer.status < 400 and answer.status != 204:
                self.caller.fault(self.name, f"id {bad}: {answer.brief()}")

    def run(self):
        if self.schema:
            self.bodies()
        if self.takes_bytes:
            self.bytes()
        self.queries()
        self.headers()
        self.ids()


def escape(value):
    return "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in value)


def half_sent(caller):
    """Peers that stop in the middle hold up nobody."""
    for text in (b"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
                 b"GET /v1/host HT", b"\0\0\0\0", b"GET /v1/host HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        with socket.create_connection(caller.address, timeout=LATE_SECONDS) as connection:
            connection.sendall(text)
            caller.call("beside a peer that stops", "GET", "/v1/host", {}, None)


def run(context):
    context.provision(executionId="live")
    context.expect(201, "POST", "/v1/executions/live/checkpoints", json={"checkpointId": "kept"})
    caller = Caller(context)
    paths = caller.document.document["paths"]
    for path, item in paths.items():
        for method, operation in item.items():
            if method in ("get", "post", "put", "patch", "delete"):
                shared = item.get("parameters", [])
                route = Route(caller, method, path, operation,
                              [*operation.get("parameters", []), *shared])
                if operation["operationId"] == "followChanges":
                    route.call = bounded(route.call)
                if node.find() is None and path.startswith("/v1/ptc/runs"):
                    continue
                route.run()
    half_sent(caller)
    context.say(f"{caller.count} requests to {len(paths)} paths")
    if caller.faults:
        (context.directory / "faults").write_text("\n".join(caller.faults), encoding="utf-8")
        raise Failure(f"{len(caller.faults)} answers are wrong:\n" + "\n".join(caller.faults[:SHOWN]))
    check_nothing_made(context)


def check_nothing_made(context):
    """And what was there is as it was."""
    items = context.expect(200, "GET", "/v1/executions").json()["items"]
    checkpoints = context.expect(200, "GET", "/v1/checkpoints").json()["items"]
    commands = context.expect(200, "GET", "/v1/executions/live/commands").json()["items"]
    if [item["executionId"] for item in items] != ["live"] or items[0]["state"] != "provisioned" or \
            items[0]["labels"] or items[0]["owner"] or len(checkpoints) != 1 or commands:
        raise Failure(f"bad input has done something: {items} {checkpoints} {commands}")


def bounded(call):
    """Of an endless stream only what is there."""
    def bound(what, target=None, headers=None, body=None):
        target = target or "/v1/events"
        if "follow" not in target:
            target += ("&" if "?" in target else "?") + "follow=false"
        return call(what, target, headers, body)
    return bound
