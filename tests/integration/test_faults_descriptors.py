"""Descriptors run out: a service that may open few is asked for more than they allow, again and
again. Each answer is one of the contract, nothing acknowledged is lost, and with descriptors back
everything works as before."""
import os
import resource
import socket
import threading
import time

from context import Failure

HOSTS = ("native",)  # an engine that can't be called for want of one is an engine that is gone
IMAGES = ["base"]
SPARE = 6            # so many more than the service has open when it is idle
ROUNDS = 4
WAIT_SECONDS = 120
ALLOWED = {200, 201, 202, 204, 404, 429, 500, 503, 507}


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def limit(pid, count):
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, hard))


class Told:
    """What answers acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        self.executions = set()
        self.files = {}
        self.commands = set()
        self.checkpoints = set()
        self.statuses = {}

    def note(self, answer, what):
        with self.lock:
            key = (what, answer.status if answer else "no answer")
            self.statuses[key] = self.statuses.get(key, 0) + 1
        if answer and answer.status >= 400:
            body = answer.json()
            if answer.status not in ALLOWED or "code" not in body or body["code"] == "INTERNAL" and \
                    not body.get("detail"):
                raise Failure(f"{what}: {answer.brief()}")
        return answer is not None and answer.status < 300


def attempt(context, told, what, method, path, **more):
    """The answer, or None where no connection could be had."""
    try:
        answer = context.call(method, path, timeout=60, **more)
    except OSError:
        answer = None
    return answer, told.note(answer, what)


def work(context, told, path, name):
    content = name.encode() * 100
    if attempt(context, told, "write", "PUT", f"{path}/files/content?path={name}", body=content)[1]:
        told.files[f"{path}/files/content?path={name}"] = content
    body = {"commandId": name, "command": "/bin/echo", "args": [name]}
    answer, done = attempt(context, told, "command", "POST", f"{path}/commands", json=body)
    if done and answer.json()["termination"]["reason"] == "exited":
        told.commands.add((f"{path}/commands/{name}", name))
    answer, done = attempt(context, told, "checkpoint", "POST", f"{path}/checkpoints",
                           json={"checkpointId": f"c-{name}"})
    if done:
        told.checkpoints.add(f"c-{name}")
    attempt(context, told, "list", "GET", "/v1/executions")
    attempt(context, told, "archive", "GET", f"{path}/archive")


def provision(context, told, name):
    body = {"executionId": name, "image": context.images["base"]["id"], "workspace": {"kind": "empty"},
            "resources": {"cpus": 1, "memoryBytes": 128 << 20, "diskBytes": 32 << 20, "pids": 64,
                          "runtimeMs": 3600000, "maxOutputBytes": 1 << 20},
            "network": {"mode": "none"}, "host": context.host}
    if attempt(context, told, "provision", "POST", "/v1/executions", json=body)[1]:
        told.executions.add(name)


def crowd(context):
    """Connections that say nothing: they take what is left."""
    taken = []
    for _ in range(SPARE * 2):
        peer = socket.create_connection(context.service.address, timeout=30)
        taken.append(peer)
    return taken


def starve(context, told, path, number):
    pid = context.service.process.pid
    limit(pid, descriptors(pid) + SPARE * (number % 3 + 1))
    peers = crowd(context) if number % 2 else []
    threads = [threading.Thread(target=work, args=(context, told, path, f"r{number}-{i}"))
               for i in range(6)]
    threads.append(threading.Thread(target=provision, args=(context, told, f"more-{number}")))
    for thread in threads:
        thread.start()
    for peer in peers:
        time.sleep(0.05)
        peer.close()
    for thread in threads:
        thread.join(300)
        if thread.is_alive():
            raise Failure("a call hangs")
    limit(pid, 4096)


def check_alive(context, path, name):
    """All works, now that there are descriptors."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        answer = context.call("POST", f"{path}/commands",
                              json={"commandId": name, "command": "/bin/echo", "args": ["back"]})
        if answer.status == 201 and answer.json()["stdout"] == "back\n":
            return
        if answer.status == 404 or time.monotonic() > deadline:
            raise Failure(f"not as before: {answer.brief()}")
        name += "x"
        time.sleep(0.5)


def check_told(context, told):
    for path, content in told.files.items():
        answer = context.call("GET", path)
        if answer.status == 200 and answer.body != content:
            raise Failure(f"{path}: other content")
        if answer.status not in (200, 404):
            raise Failure(f"{path}: {answer.brief()}")
    for path, name in told.commands:
        if context.expect(200, "GET", path).json()["stdout"] != f"{name}\n":
            raise Failure(f"{path}: its output is lost")
    for name in told.checkpoints:
        report = context.expect(200, "POST", f"/v1/checkpoints/{name}/verify").json()
        if not report["ok"]:
            raise Failure(f"checkpoint {name}: {report}")
    for name in told.executions:
        context.expect(200, "GET", f"/v1/executions/{name}")


def run(context):
    context.faulty = True
    told = Told()
    for number in range(ROUNDS):
        provision(context, told, f"base-{number}")
        path = f"/v1/executions/base-{number}"
        check_alive(context, path, f"before-{number}")
        starve(context, told, path, number)
        state = context.expect(200, "GET", path).json()
        if state["state"] != "provisioned":
            raise Failure(f"an execution is lost: {state['termination']}")
        check_alive(context, path, f"after-{number}")
        check_told(context, told)
    provision(context, told, "last")
    check_alive(context, "/v1/executions/last", "last")
    context.say(f"{told.statuses}")
