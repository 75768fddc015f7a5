"""One row in progress: its variables, its service, its steps, and what it must clean up."""
import json
import pathlib
import shutil
import subprocess
import threading
import urllib.parse
import uuid

from . import actions, client, host_actions, native, ptc_actions, streams
from .match import Mismatch, match
from .proxy import Proxy
from .schema import Violation
from .service import Service
from .values import Unknown, edited, fill, pointer_get

STEP_KEYS = {"call", "json", "body", "headers", "query", "expect", "save", "within", "set",
             "remove", "template", "note", "timeout", "repeat", "onHost", "unix", "bodyFile",
             "saveBody"}
ACTIONS = {**actions.ACTIONS, **host_actions.ACTIONS, **ptc_actions.ACTIONS}


class Failure(Exception):
    """What a row saw that its promise does not allow."""


class Row:
    """Steps may run on several threads of one row: `lock` guards variables and cleanup."""

    def __init__(self, world, row):
        self.world = world
        self.row = row
        self.directory = world.new_row_directory()
        self.lock = threading.Lock()
        self.variables = {**world.variables(), **row.get("vars", {}),
                          "u": uuid.uuid4().hex[:10], "tmp": str(self.directory)}
        self.fill_own(row.get("vars", {}))
        self.fill_own(row.get("hosts", {}).get(world.host, {}))
        self.fill_own(row.get("vars", {}))
        self.background = {}
        self.executions = []
        self.checkpoints = []
        self.undo = []
        self.proxy = None
        self.own = row.get("service")
        self.token = (self.own or {}).get("token")
        self.service = world.service

    def fill_own(self, values):
        """What needs a variable that only a step sets stays as it is until it is used."""
        for name, value in values.items():
            try:
                self.variables[name] = fill(value, self.variables)
            except Unknown:
                self.variables[name] = value

    # Life of the row.

    def run(self):
        complete = False
        try:
            self.prepare()
            self.steps(self.row["steps"])
            for name in list(self.background):
                self.join(name)
            complete = True
        finally:
            self.finish(complete)

    def prepare(self):
        if self.own is not None:
            self.prepare_service()
        if self.service and self.service.process:
            answer = client.call(self.service.address, "GET", "/v1/host", self.authorization())
            self.variables["instance"] = answer.json()["instanceId"]
            self.variables["data"] = str(self.service.data)

    def prepare_service(self):
        if self.own.get("proxy"):
            path = self.directory / "engine.sock"
            self.proxy = Proxy(path, self.world.engine.socket)
            self.variables["engineSocket"] = str(path)
        if "smallDisk" in self.own:
            self.mount_small(fill(self.own["smallDisk"], self.variables))
        config = self.world.service_config(self.own.get("config"), self.variables)
        self.service = Service(self.world.binary, self.directory / "service", config,
                               fill(self.own.get("arguments", []), self.variables),
                               self.own.get("lean", False))
        if "data" in self.own:
            self.service.data = pathlib.Path(fill(self.own["data"], self.variables))
        self.variables["data"] = str(self.service.data)
        if self.own.get("start", True):
            self.service.start()

    def mount_small(self, wanted):
        """A disk of a few bytes, for what happens when it is full."""
        path = wanted["path"]
        subprocess.run(["mkdir", "-p", path], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={wanted['bytes']}", "tmpfs", path],
                       check=True)
        self.undo.append(lambda: subprocess.run(["umount", "-l", path], check=True))

    def finish(self, complete):
        """Runs whatever happened; what was seen of a row that failed stays in its directory."""
        problems = []
        for execution, headers in self.executions:
            self.attempt(problems, self.terminate, execution, headers)
        for checkpoint, headers in self.checkpoints:
            self.attempt(problems, self.delete_checkpoint, checkpoint, headers)
        if self.own is not None:
            self.attempt(problems, self.finish_service)
        for action in reversed(self.undo):
            self.attempt(problems, action)
        if self.proxy:
            self.proxy.cut()
        if complete and not problems:
            shutil.rmtree(self.directory, ignore_errors=True)
        if complete and problems:
            raise Failure("cleaning up: " + "; ".join(problems))

    @staticmethod
    def attempt(problems, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # every kind of failure here is one of the row
            problems.append(f"{type(error).__name__}: {error}")

    def authorization(self):
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def terminate(self, execution, headers):
        if not self.service or not self.service.process:
            return
        headers = {"Fencing-Token": "9007199254740991", **headers}
        answer = client.call(self.service.address, "DELETE", f"/v1/executions/{execution}",
                             headers)
        if answer.status != 204:
            raise Failure(f"DELETE of {execution}: {answer.brief()}")

    def delete_checkpoint(self, checkpoint, headers):
        if not self.service or not self.service.process:
            return
        answer = client.call(self.service.address, "DELETE", f"/v1/checkpoints/{checkpoint}",
                             headers)
        if answer.status != 204:
            raise Failure(f"DELETE of checkpoint {checkpoint}: {answer.brief()}")

    def finish_service(self):
        try:
            if self.service.process:
                self.service.stop()
            else:
                self.service.check_errors()
        finally:
            left = self.take_away_rest()
        if left:
            raise Failure(f"left behind: {left}")

    def take_away_rest(self):
        """What the row's own service left on the host, by name; removed for the rows to come."""
        instance = self.variables.get("instance")
        if not instance:
            return []
        if self.world.host == "native":
            left = native.left_of(instance, self.variables["data"])
            native.take_away(instance, self.variables["data"])
            return left
        left = self.world.engine.left_of(instance)
        for item in self.world.engine.containers([f"exechost.instance={instance}"]):
            self.world.engine.remove(item["Id"])
        return left

    # Steps.

    def steps(self, steps):
        for number, step in enumerate(steps, 1):
            try:
                self.step(step)
            except (Mismatch, Violation, Failure) as error:
                raise Failure(f"step {number} {describe(step)}: {error}") from error

    def step(self, step):
        if step.get("onHost", self.world.host) != self.world.host:
            return
        for key, function in ACTIONS.items():
            if key in step:
                function(self, step)
                return
        if "call" in step:
            self.call_step(step)
            return
        raise ValueError(f"no action in step {json.dumps(step)[:200]}")

    def set(self, name, value):
        with self.lock:
            self.variables[name] = value

    def fill(self, value):
        with self.lock:
            return fill(value, self.variables)

    def call_step(self, step):
        unknown = set(step) - STEP_KEYS
        if unknown:
            raise ValueError(f"unknown keys of a step: {sorted(unknown)}")
        if "within" in step:
            return actions.poll(self, step["within"], lambda: self.call_once(step))
        answer = None
        for index in range(step.get("repeat", 1)):
            if "repeat" in step:
                self.set("i", index)
            answer = self.call_once(step)
        return answer

    def body_of(self, step):
        """(bytes or None, headers)"""
        headers = {}
        if "template" in step:
            base = self.fill(self.world.templates[step["template"]])
            value = edited(base, self.fill(step.get("set")), self.fill(step.get("remove")))
            body = json.dumps(value).encode("utf-8", "surrogatepass")
        elif "json" in step:
            body = json.dumps(self.fill(step["json"])).encode("utf-8", "surrogatepass")
        elif "bodyFile" in step:
            return pathlib.Path(self.fill(step["bodyFile"])).read_bytes(), headers
        elif "body" in step:
            body = self.fill(step["body"])
            body = body.encode("latin-1") if isinstance(body, str) else body
        else:
            return None, headers
        headers["Content-Type"] = "application/json"
        return body, headers

    def call_once(self, step):
        method, target = self.fill(step["call"]).split(" ", 1)
        body, headers = self.body_of(step)
        headers = {**headers, **self.authorization()}
        for name, value in self.fill(step.get("headers", {})).items():
            headers = {k: v for k, v in headers.items() if k.lower() != name.lower()}
            if value is not None:
                headers[name] = str(value)
        if step.get("query"):
            target += ("&" if "?" in target else "?") + urllib.parse.urlencode(
                self.fill(step["query"]))
        address = self.fill(step["unix"]) if "unix" in step else self.service.address
        answer = self.exchange(address, method, target, headers, body, step)
        self.remember(method, target, headers, answer)
        self.check(step, method, target, answer)
        for name, pointer in self.fill(step.get("save", {})).items():
            self.set(name, saved(answer, pointer))
        if "saveBody" in step:
            pathlib.Path(self.fill(step["saveBody"])).write_bytes(answer.body)
        return answer

    def exchange(self, address, method, target, headers, body, step):
        """By the client library under test, where there is one and it has this operation."""
        bridge = self.world.bridge
        operation = bridge and bridge.operation(address, method, target, headers, body)
        if operation:
            return bridge.call(operation)
        return client.call(address, method, target, headers, body, step.get("timeout", 180))

    def remember(self, method, target, headers, answer):
        """Everything that was made is taken away at the end of the row, by who made it."""
        if method != "POST" or answer.status not in (201, 202):
            return
        path = target.split("?")[0]
        if answer.media_type() != "application/json":
            return
        value = answer.json()
        maker = {k: v for k, v in headers.items() if k == "Authorization"}
        with self.lock:
            if path == "/v1/executions" or path.endswith("/restore"):
                self.executions.append((value["executionId"], maker))
            elif path.endswith(("/checkpoints", "/checkpoints/import")):
                self.checkpoints.append((value["checkpointId"], maker))

    def check(self, step, method, target, answer):
        path = target.split("?")[0]
        try:
            schema = self.world.document.check(method, path, answer)
        except Violation as violation:
            raise Violation(f"{violation}; answer: {answer.brief()}") from violation
        if schema is not None and answer.media_type().endswith("json"):
            key = (method, self.world.document.template(path), answer.status)
            self.world.keep_sample(key, schema, answer.json())
        expectation(self.fill(step.get("expect", {})), answer, self.world.slow)

    def join(self, name):
        thread, errors = self.background.pop(name)
        thread.join(300)
        if thread.is_alive():
            raise Failure(f"background {name} does not end")
        if errors:
            raise Failure(f"background {name}: {errors[0]}")


def saved(answer, pointer):
    if pointer.startswith("header:"):
        return answer.header(pointer[7:])
    if pointer.startswith("events/"):
        return pointer_get(answer.events(), pointer[6:])
    if pointer == "body":
        return answer.body.decode("utf-8", "replace")
    return pointer_get(answer.json(), pointer)


def describe(step):
    for key in ("note", "call", "sh", "exec", "terminate"):
        if key in step:
            return f"[{str(step[key])[:80]}]"
    return f"[{json.dumps(step)[:100]}]"


EXPECT_KEYS = {"status", "code", "field", "phase", "retryable", "json", "headers", "maxMs", "minMs",
               "causes", "detail", "text", "events",
               "transcript"}


def expectation(expect, answer, slow):
    unknown = set(expect) - EXPECT_KEYS
    if unknown:
        raise ValueError(f"unknown expectations: {sorted(unknown)}")
    status = expect.get("status")
    wanted = status if isinstance(status, list) else [status]
    if status is None and not 200 <= answer.status < 300:
        raise Mismatch(f"expected success, got {answer.brief()}")
    if status is not None and answer.status not in wanted:
        raise Mismatch(f"expected status {status}, got {answer.brief()}")
    problem = {key: expect[key] for key in ("code", "field", "phase", "retryable", "causes",
                                            "detail") if key in expect}
    if problem:
        match(problem, answer.json())
    if "json" in expect:
        match(expect["json"], answer.json())
    if "events" in expect:
        match(expect["events"], answer.events())
    if "transcript" in expect:
        match(expect["transcript"], streams.transcript(answer.events()))
    if "text" in expect:
        match(expect["text"], answer.body.decode("utf-8", "replace"))
    for name, matcher in expect.get("headers", {}).items():
        match({name: matcher}, {} if answer.header(name) is None else {name: answer.header(name)})
    elapsed = answer.elapsed_ms
    if elapsed > expect.get("maxMs", elapsed) * slow or elapsed < expect.get("minMs", elapsed):
        raise Mismatch(f"took {elapsed:.0f} ms, allowed are {expect.get('minMs', 0)}.."
                       f"{expect.get('maxMs', 'any')}")
