"""Files and archives against programs that swap what they lead through: nothing outside is read or
written, and no answer is a failure of the service."""
import collections
import io
import random
import subprocess
import tarfile
import threading
import time

from context import Failure

SECONDS = 30
CLIENTS = 6
SECRET = b"OUTSIDE-SECRET"
FOREIGN = (SECRET, b"outside-name", b"root:x:", b"/bin/sh\n")
ALLOWED = {"GET": {200, 206, 400, 404, 422, 503}, "PUT": {204, 400, 404, 422, 503},
           "DELETE": {204, 400, 404, 422, 503}}
OUTSIDE = {"/tmp/f": "644", "/tmp/outside-name": "644", "/tmp/outside-dir": "711",
           "/tmp/outside-dir/f": "644", "/tmp/outside-dir/outside-name": "644"}
PLACES = ["d0", "d1", "d2", "l0", "d0/sub", "d1/sub", "deep/a", "deep/a/b", "b"]


def archive(number):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in ("f", "sub/f", "sub/new", f"x/{number}", "x/y/z/f"):
            info = tarfile.TarInfo(name)
            content = f"written {number}\n".encode()
            info.size = len(content)
            info.mode = 0o640
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def choose(number):
    place = random.choice(PLACES)
    return random.choice([
        ("GET", f"/files?path={place}", None),
        ("GET", f"/files/content?path={place}/f", None),
        ("GET", f"/files/content?path={place}/g", None),
        ("PUT", f"/files/content?path={place}/f&mode=0600", b"written\n"),
        ("PUT", f"/files/content?path={place}/g", b"written\n"),
        ("PUT", f"/files/content?path={place}/new/er/{number % 10}", b"written\n" * 5000),
        ("DELETE", f"/files?path={place}/f", None),
        ("DELETE", f"/files?path={place}/sub&recursive=true", None),
        ("DELETE", f"/files?path={place}/new&recursive=true", None),
        ("GET", f"/archive?path={place}", None),
        ("GET", "/archive", None),
        ("PUT", f"/archive?path={place}", archive(number)),
    ])


def shown(path, body):
    """What an answer shows, without where links lead to and the program itself."""
    if not path.startswith("/archive"):
        return [body]
    parts = []
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        for member in tar:
            if member.name != "swap":
                parts.append(member.name.encode())
                parts.append(tar.extractfile(member).read() if member.isreg() else b"")
    return parts


class Client(threading.Thread):
    def __init__(self, context, base, until):
        super().__init__()
        self.context, self.base, self.until = context, base, until
        self.seen = collections.Counter()
        self.faults = []

    def run(self):
        number = 0
        while time.monotonic() < self.until and len(self.faults) < 5:
            number += 1
            method, path, body = choose(number)
            answer = self.context.call(method, self.base + path, body)
            self.seen[method, path.split("?")[0], answer.status] += 1
            if answer.status not in ALLOWED[method]:
                self.faults.append(f"{method} {path}: {answer.brief()}")
            if method == "GET" and answer.status < 300:
                self.check_shown(method, path, answer.body)

    def check_shown(self, method, path, body):
        for part in shown(path, body):
            if any(mark in part for mark in FOREIGN):
                self.faults.append(f"{method} {path} shows what lies outside: {part[:200]!r}")


def build(directory):
    source = __file__.replace("test_files_race.py", "swap.c")
    program = directory / "swap"
    subprocess.run(["cc", "-O1", "-static", "-o", str(program), source], check=True)
    return program.read_bytes()


def check_outside(context, base):
    script = "for f in $(find /tmp /dev/shm | sort); do stat -c '%n %a' $f; done; cat /tmp/f " \
             "/tmp/outside-name /tmp/outside-dir/f /tmp/outside-dir/outside-name"
    answer = context.call("POST", base + "/commands",
                          json={"command": "sh", "args": ["-c", script]})
    lines = answer.json()["stdout"].splitlines()
    found = dict(line.split() for line in lines if " " in line)
    for top in ("/tmp", "/dev/shm"):
        found.pop(top, None)
    if found != OUTSIDE:
        raise Failure(f"outside of the workspace things have changed: {found}")
    if [line for line in lines if " " not in line] != [SECRET.decode()] * 4:
        raise Failure(f"files outside of the workspace have changed: {lines}")


def check_busy(seen):
    """The race was one: each call was both let through and refused."""
    for method, path in {(method, path) for method, path, _status in seen}:
        done = sum(count for (m, p, status), count in seen.items()
                   if (m, p) == (method, path) and status < 300)
        refused = sum(count for (m, p, status), count in seen.items()
                      if (m, p) == (method, path) and status in (400, 404))
        if done == 0 or refused == 0:
            raise Failure(f"{method} {path}: {done} done, {refused} refused: {dict(seen)}")


def run(context):
    base = context.provision(resources={"memoryBytes": 512 << 20, "diskBytes": 128 << 20, "pids": 64,
                                        "cpus": 2})
    context.expect(204, "PUT", base + "/files/content?path=swap&mode=0755", build(context.directory))
    command = context.expect(202, "POST", base + "/commands?wait=false",
                             json={"command": "./swap", "args": [str(SECONDS)]}).json()
    until = time.monotonic() + SECONDS
    clients = [Client(context, base, until) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    faults = [fault for client in clients for fault in client.faults]
    seen = sum((client.seen for client in clients), collections.Counter())
    if faults:
        raise Failure("\n".join(faults[:10]))
    done = context.call("GET", f"{base}/commands/{command['commandId']}?waitMs=60000").json()
    if done["exitCode"] != 0:
        raise Failure(f"the program inside ended otherwise: {done}")
    context.say(f"{sum(int(line) for line in done['stdout'].split())} swaps, "
                f"{sum(seen.values())} calls: {sorted(seen.items())}")
    check_outside(context, base)
    check_busy(seen)
    leftovers = context.call("POST", base + "/commands", json={
        "command": "sh", "args": ["-c", "ls -A | grep -c stage"]}).json()["stdout"]
    context.expect(204, "PUT", base + "/files/content?path=last", b"x")
    after = context.call("POST", base + "/commands", json={
        "command": "sh", "args": ["-c", "ls -A | grep -c stage"]}).json()["stdout"]
    if after.strip() != "0":
        raise Failure(f"stages are left: {leftovers.strip()} before, {after.strip()} after a write")
