"""After a fault and a restart: what was acknowledged is there, and store, host and disk agree."""
import hashlib
import pathlib
import sqlite3
import time

from lib import native

from life import Strange

SETTLED = {"provisioned", "terminated", "failed"}
# What is lent to programs lies beside `ptc` while that is made anew.
TOP = {"exechost.db", "exechost.db-wal", "exechost.db-shm", "exechost.lock", "exechost.reserve",
       "checkpoints", "native", "ptc", "ptc.libraries", "runs", "scratch", "transcripts"}


def until(what, attempt, seconds=60):
    """Tries until `attempt` gives something true."""
    deadline = time.monotonic() + seconds
    while True:
        found = attempt()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Strange(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Agreement:
    """`call` as in a Life; `life` is what was lived, `killed` whether it was cut by a kill."""

    def __init__(self, call, life, killed):
        self.call = call
        self.life = life
        self.killed = killed

    def expect(self, status, method, path, value=None):
        answer = self.life.call(method, path, value)
        if answer is None or answer.status != status:
            raise Strange(f"{method} {path} after the restart: "
                          f"{answer.brief() if answer else 'no answer'}")
        return answer

    # --- what was acknowledged ---

    def check_acknowledged(self):
        until("ready", lambda: self.ready())
        for name, state in self.life.executions.items():
            self.check_execution(name, state)
        for (execution, command), stdout in self.life.commands.items():
            found = self.expect(200, "GET", f"/v1/executions/{execution}/commands/{command}").json()
            if (found["state"], found["exitCode"], found["stdout"]) != ("exited", 0, stdout):
                raise Strange(f"command {command} of {execution} is another: {found}")
        for (execution, path), content in self.life.files.items():
            self.check_file(execution, path, content)
        for name, digest in self.life.checkpoints.items():
            self.check_checkpoint(name, digest)
        for name in self.life.deleted:
            self.expect(404, "GET", f"/v1/checkpoints/{name}")
        for name, value in self.life.runs.items():
            found = self.expect(200, "GET", f"/v1/ptc/runs/{name}").json()
            if found["state"] != "settled" or found["result"].get("value") != value:
                raise Strange(f"run {name} is another: {found}")

    def ready(self):
        answer = self.call("GET", "/readyz", {}, None)
        return answer is not None and answer.status == 200

    def check_execution(self, name, state):
        found = until(f"{name} settles", lambda: self.settled(name))
        excused = not self.killed or (self.life.host == "docker" and name in self.life.unsure)
        if state == "living" and found["state"] != "provisioned" and not excused:
            raise Strange(f"{name} was living: {found}")
        if state == "ended" and found["state"] != "terminated":
            raise Strange(f"{name} was terminated: {found}")

    def settled(self, name):
        found = self.expect(200, "GET", f"/v1/executions/{name}").json()
        return found if found["state"] in SETTLED else None

    def check_file(self, execution, path, content):
        answer = self.life.call("GET", f"/v1/executions/{execution}/files/content?path={path}")
        if answer is not None and answer.status == 404 and \
                answer.json()["code"] == "EXECUTION_NOT_FOUND":
            return  # that the execution may have ended was checked before
        if answer is None or answer.status != 200 or answer.body != content:
            raise Strange(f"{path} of {execution}: {answer.brief() if answer else None}")

    def check_checkpoint(self, name, digest):
        if digest is None:
            return
        self.expect(200, "GET", f"/v1/checkpoints/{name}")
        found = self.expect(200, "POST", f"/v1/checkpoints/{name}/verify").json()
        if not found["ok"]:
            raise Strange(f"checkpoint {name}: {found}")
        archive = self.expect(200, "GET", f"/v1/checkpoints/{name}/archive").body
        if "sha256:" + hashlib.sha256(archive).hexdigest() != digest:
            raise Strange(f"the archive of {name} is another")

    # --- it goes on ---

    def check_works(self):
        self.life.provision("again", {"kind": "empty"})
        if self.life.executions.get("again") != "living":
            raise Strange("no execution can be provisioned after the restart")
        self.life.command("again", "c", "echo again >f; cat f", "again\n")
        self.life.checkpoint("again", "again")
        if "again" not in self.life.checkpoints or ("again", "c") not in self.life.commands:
            raise Strange("commands or checkpoints fail after the restart")
        self.life.run_program("again")
        if self.life.programs and "again" not in self.life.runs:
            raise Strange("runs fail after the restart")

    def list(self, path):
        return self.expect(200, "GET", f"{path}{'&' if '?' in path else '?'}limit=200").json()["items"]

    def end_all(self):
        def living():
            items = self.list("/v1/executions")
            for item in items:
                if item["state"] == "provisioned":
                    self.expect(204, "DELETE", f"/v1/executions/{item['executionId']}")
            return not [item for item in items if item["state"] not in ("terminated", "failed")]
        until("all executions end", living)
        open_runs = [run for run in self.list("/v1/ptc/runs") if run["state"] != "settled"] \
            if self.life.programs else []
        if open_runs:
            raise Strange(f"runs are left open: {open_runs}")

    # --- nothing is left ---

    def check_host(self, engine, instance, data):
        """Now, because the answers to DELETE were the proof."""
        if self.life.host == "native":
            left = native.left_of(instance, data, "*")
        else:
            left = until_few(lambda: engine.left_of(instance))
        if left:
            raise Strange(f"left on the host: {left}")

    def check_directories(self, data):
        """What lies in the data directory is what the lists say."""
        data = pathlib.Path(data)
        checkpoints = {item["checkpointId"] for item in self.list("/v1/checkpoints")}
        runs = {f"{item['runId']}.ndjson" for item in self.list("/v1/ptc/runs")} \
            if self.life.programs else set()
        compare("the data directory", names(data) - TOP, set())
        compare("checkpoints", names(data / "checkpoints/default"), checkpoints)
        compare("logs of runs", names(data / "runs/default"), runs)
        compare("scratch", names(data / "scratch"), set())
        compare("native/run", names(data / "native/run"), set())
        for name in checkpoints:
            compare(f"checkpoint {name}", names(data / "checkpoints/default" / name),
                    {"manifest.json", "files.jsonl.zst", "workspace.tar.zst"})


def until_few(attempt, seconds=20):
    """A guard of the Docker host may still be on its way out."""
    deadline = time.monotonic() + seconds
    left = attempt()
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left = attempt()
    return left


def names(directory):
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()


def compare(what, found, wanted):
    if found != wanted:
        raise Strange(f"{what}: too many {sorted(found - wanted)}, missing {sorted(wanted - found)}")


def check_rows(data):
    """Of a stopped service: the rows hold together, and every transcript has one."""
    data = pathlib.Path(data)
    with sqlite3.connect(data / "exechost.db") as database:
        problems = [row[0] for row in database.execute("PRAGMA integrity_check") if row[0] != "ok"]
        problems += [str(row) for row in database.execute("PRAGMA foreign_key_check")]
        problems += [f"command {row[0]} is {row[1]}" for row in database.execute(
            "SELECT command_id, state FROM commands WHERE state IN ('queued', 'running')")]
        known = {(str(row[0]), f"{row[1]}.log") for row in database.execute(
            "SELECT execution_row, command_id FROM commands")}
    if problems:
        raise Strange(f"rows: {problems}")
    found = {(path.parent.name, path.name) for path in (data / "transcripts").glob("*/*/*")}
    compare("transcripts without a row", found - known, set())


def check_stopped(data, instance, engine, host):
    """Nothing of the instance, once it has ended."""
    left = native.left_of(instance, data) if host == "native" else engine.left_of(instance)
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(data).encode() in path.read_bytes():
                left.append(f"process {path.parent.name}")
        except OSError:
            continue
    if left:
        raise Strange(f"left after the end: {left}")
