"""Has a client library make the operations of the table. A bridge is a process that reads one request
a line from its standard input and writes one answer a line, in any order:

    {"id", "baseUrl", "token", "operation", "target", "request", "fencingToken", "idempotencyKey"}
    {"id", "status", "headers": [[name, value]…], "body", "problem"}

`operation` is provision, exec, checkpoint, restore, terminate or reclaim, `target` the id it is about
(null of provision), `request` the body. What comes back is what went over the wire, once; the bridge
says in `problem` where the library's result or error is not what the answer says.
"""
import collections
import itertools
import json
import queue
import re
import shlex
import subprocess
import threading
import time

from .client import Response
from .match import Mismatch

ID = "([A-Za-z0-9_.-]+)"
OPERATIONS = [
    ("POST", re.compile("/v1/executions"), "provision"),
    ("POST", re.compile(f"/v1/executions/{ID}/commands"), "exec"),
    ("POST", re.compile(f"/v1/executions/{ID}/checkpoints"), "checkpoint"),
    ("POST", re.compile(f"/v1/checkpoints/{ID}/restore"), "restore"),
    ("DELETE", re.compile(f"/v1/executions/{ID}"), "terminate"),
    ("POST", re.compile(f"/v1/executions/{ID}/reclaim"), "reclaim"),
]
OPTIONAL_BODY = {"checkpoint", "restore", "terminate", "reclaim"}
KNOWN_HEADERS = {"content-type", "authorization", "fencing-token", "idempotency-key"}


class Bridge:
    """Any thread may call; each call blocks until its answer is there."""

    def __init__(self, command):
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.lock = threading.Lock()
        self.ids = itertools.count(1)
        self.waiting = {}
        self.made = collections.Counter()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.waiting.pop(answer["id"]).put(answer)
        for waiter in list(self.waiting.values()):
            waiter.put(None)

    @staticmethod
    def operation(address, method, target, headers, body):
        """What the library is to be asked for; None for all that it can't say in the same words."""
        lower = {name.lower(): value for name, value in headers.items()}
        if isinstance(address, str) or set(lower) - KNOWN_HEADERS:
            return None
        name, about = named(method, target)
        request = sayable(name, lower, body)
        if name is None or request is None:
            return None
        return {"baseUrl": f"http://{address[0]}:{address[1]}", "operation": name, "target": about,
                "token": lower.get("authorization", "Bearer ")[len("Bearer "):] or None,
                "request": request, "idempotencyKey": lower.get("idempotency-key"),
                "fencingToken": number(lower.get("fencing-token"))}

    def call(self, operation):
        started = time.monotonic()
        waiter = queue.Queue()
        number_of = next(self.ids)
        self.waiting[number_of] = waiter
        line = json.dumps({"id": number_of, **operation}).encode() + b"\n"
        with self.lock:
            self.made[operation["operation"]] += 1
            self.process.stdin.write(line)
            self.process.stdin.flush()
        answer = waiter.get(timeout=300)
        if answer is None:
            raise Mismatch("the bridge has ended")
        if answer.get("problem"):
            raise Mismatch(f"the client's {operation['operation']}: {answer['problem']}")
        elapsed = (time.monotonic() - started) * 1000
        return Response(answer["status"], [tuple(pair) for pair in answer["headers"]],
                        answer["body"].encode("utf-8", "surrogatepass"), elapsed)

    def summary(self):
        return ", ".join(f"{count} {name}" for name, count in sorted(self.made.items())) or "0 calls"

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


def named(method, target):
    for wanted, pattern, name in OPERATIONS:
        found = pattern.fullmatch(target) if method == wanted else None
        if found:
            return name, found.group(1) if found.groups() else None
    return None, None


def number(text):
    return int(text) if text is not None and re.fullmatch("[0-9]{1,15}", text) else None


def sayable(name, headers, body):
    """The body as an object, or None where a library would not send it so."""
    if headers.get("fencing-token") is not None and number(headers["fencing-token"]) is None:
        return None
    if not body:
        return {} if name in OPTIONAL_BODY else None
    try:
        value = json.loads(body)
    except ValueError:
        return None
    plain = isinstance(value, dict) and json.dumps(value).encode() == body
    return value if plain and headers.get("content-type") == "application/json" else None
