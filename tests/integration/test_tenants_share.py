"""Two tenants. One has as many calls for files as it can get stall, in executions of its own: calls
of the other are served all the same, and the first is told to come back later."""
import collections
import hashlib
import threading
import time

from context import Failure

IMAGES = ["base"]
WORKERS = 4                       # so many threads for each kind of work, and four times for files
HOGS = 3                          # executions that stall; eight calls of each can run
CLIENTS = 20                      # of each execution: eight run, eight wait, four are refused
STALL_SECONDS = 600               # far more than what follows takes
OTHER_CALLS = 20
# Stops whatever the service starts inside to work on files, and says when it has.
STOPPER = r"""
while [ ! -e over ]; do
    for p in /proc/[0-9]*; do
        c=$(tr "\0" " " <$p/cmdline)
        case "$c" in */guest\ run*) ;; */guest\ *|guest\ *) kill -STOP ${p#/proc/} && echo stopped ;; esac
    done 2>/dev/null
done
"""


def tokens():
    return [{"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": name,
             "scopes": ["read", "write", "admin"]} for name in ("greedy", "modest")]


def bearer(tenant):
    return {"Authorization": f"Bearer {tenant}"}


class Tenant:
    def __init__(self, context, name):
        self.context = context
        self.headers = bearer(name)

    def call(self, method, path, **more):
        return self.context.call(method, path, headers=self.headers, **more)

    def expect(self, status, method, path, **more):
        answer = self.call(method, path, **more)
        if answer.status != status:
            raise Failure(f"{method} {path}: expected {status}, got {answer.brief()}")
        return answer

    def provision(self):
        body = {"image": self.context.images["base"]["id"], "workspace": {"kind": "empty"},
                "resources": {"cpus": 1, "memoryBytes": 128 << 20, "diskBytes": 32 << 20, "pids": 64,
                              "runtimeMs": 3600000, "maxOutputBytes": 1 << 20},
                "network": {"mode": "none"}, "host": self.context.host}
        made = self.expect(201, "POST", "/v1/executions", json=body).json()
        return f"/v1/executions/{made['executionId']}"


def await_true(what, condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what} after {seconds} s")
        time.sleep(0.2)


class Hog:
    """Clients that ask for one file of an execution again and again until told to end."""

    def __init__(self, tenant, path):
        self.tenant = tenant
        self.path = path
        self.answers = collections.Counter()
        self.refusals = []
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        while not self.over.is_set():
            try:
                answer = self.tenant.call("GET", f"{self.path}/files/content?path=f",
                                          timeout=STALL_SECONDS * 2)
            except OSError as error:
                answer = None
                said = type(error).__name__
            with self.lock:
                self.answers[answer.status if answer else said] += 1
                if answer and answer.status == 503:
                    self.refusals.append(dict(answer.headers))
            if not answer or answer.status != 200:
                self.over.wait(1)

    def end(self):
        self.over.set()
        self.tenant.expect(204, "DELETE", self.path)
        await_true("a call outlived its execution",
                   lambda: not any(thread.is_alive() for thread in self.threads))
        if set(self.answers) - {200, 404, 503}:
            raise Failure(f"answers: {self.answers}")


def waiting(tenant):
    """(running, waiting) of calls for files."""
    text = tenant.expect(200, "GET", "/metrics").body.decode()
    found = {}
    for line in text.splitlines():
        if line.startswith("exechost_work_") and 'kind="files"' in line:
            found[line.split("{")[0]] = int(float(line.rsplit(" ", 1)[1]))
    return found["exechost_work_running"], found["exechost_work_waiting"]


def stall(greedy):
    """Executions whose helpers are stopped, and clients that ask for their files."""
    paths = [greedy.provision() for _ in range(HOGS)]
    for path in paths:
        greedy.expect(204, "PUT", f"{path}/files/content?path=f", body=bytes(4 << 20))
    for path in paths:
        greedy.expect(202, "POST", f"{path}/commands?wait=false",
                      json={"command": "/bin/sh", "args": ["-c", STOPPER], "timeoutMs": 3000000})
    return [Hog(greedy, path) for path in paths]


def await_stall(greedy, hogs, most):
    """Until as many run as may, and none gets on."""
    seen = [None]

    def is_still():
        done = sum(hog.answers[200] for hog in hogs)
        still = waiting(greedy)[0] == most and seen[0] == done
        seen[0] = done
        time.sleep(1)
        return still

    await_true("the calls do not stall", is_still)


def check_others(modest, quiet):
    """Every kind of call, one after the other and some at once."""
    for number in range(OTHER_CALLS):
        content = f"content {number}".encode()
        modest.expect(204, "PUT", f"{quiet}/files/content?path=a/{number}", body=content)
        got = modest.expect(200, "GET", f"{quiet}/files/content?path=a/{number}").body
        if got != content:
            raise Failure(f"read {got!r}")
    modest.expect(200, "GET", f"{quiet}/archive")
    modest.expect(204, "DELETE", f"{quiet}/files?path=a&recursive=true")
    failures = []

    def read_list():
        answer = modest.call("GET", f"{quiet}/files")
        if answer.status != 200:
            failures.append(answer.brief())

    threads = [threading.Thread(target=read_list) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Failure(f"at once: {failures}")


def check_refusals(hogs):
    """The greedy tenant's line has an end."""
    await_true("no call was refused", lambda: all(hog.refusals for hog in hogs))
    for hog in hogs:
        with hog.lock:
            found = {name.lower(): value for name, value in hog.refusals[0].items()}
        if not found.get("retry-after", "").isdigit():
            raise Failure(f"a call too many: {found}")


def check(context):
    greedy, modest = Tenant(context, "greedy"), Tenant(context, "modest")
    quiet = modest.provision()
    hogs = stall(greedy)
    # Three quarters of the threads and not one more, however many calls wait.
    most = WORKERS * 4 * 3 // 4
    await_stall(greedy, hogs, most)
    check_others(modest, quiet)
    check_refusals(hogs)
    if waiting(greedy)[0] != most:
        raise Failure(f"{waiting(greedy)} instead of {most} run")
    for hog in hogs:
        hog.end()
    await_true("calls are left", lambda: waiting(greedy) == (0, 0))
    context.say(f"{most} calls of one tenant stalled; the other went on")


def run(context):
    service = context.service
    service.stop()
    service.write_config({**context.settings, "tokens": tokens(), "workerThreads": WORKERS,
                          "fileTimeoutMs": STALL_SECONDS * 1000, "maxQueuedCommands": 8})
    service.start()
    try:
        check(context)
    finally:
        for name in ("greedy", "modest"):
            tenant = Tenant(context, name)
            for item in tenant.expect(200, "GET", "/v1/executions?state=provisioned").json()["items"]:
                tenant.expect(204, "DELETE", f"/v1/executions/{item['executionId']}")
        service.stop()
        service.write_config(context.settings)
        service.start()
