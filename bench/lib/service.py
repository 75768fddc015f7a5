"""The release binary as a child, with its defaults, and calls of its HTTP API."""
import json
import pathlib
import secrets
import subprocess
import time

from lib.wire import Connection, WireError

STOP_SECONDS = 60
RESOURCES = {"cpus": 1, "memoryBytes": 268435456, "diskBytes": 67108864, "pids": 128,
             "runtimeMs": 3600000, "maxOutputBytes": 1048576}


class Service:
    """Remembers the executions it was asked for; `stop` terminates those that are left."""

    def __init__(self, binary, image, directory, settings):
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "config.json"
        config.write_text(json.dumps(settings), encoding="utf-8")
        self.image = image
        self.data = directory / "data"
        self.log = directory / "log"
        self.live = set()
        self.name = f"bench-{secrets.token_hex(6)}"
        self.count = 0
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [binary, "serve", "--config", str(config), "--listen", "127.0.0.1:0",
                 "--data", str(self.data)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self.pid = self.process.pid
        self.address = self.wait_listening()
        self.connection = Connection(self.address)

    def wait_listening(self):
        for line in self.process.stdout:
            if line.startswith("listening on http://"):
                host, _, port = line.strip().removeprefix("listening on http://").rpartition(":")
                return host, int(port)
        raise WireError(f"the service did not start: {self.log.read_text(errors='replace')}")

    def call(self, method, path, body=None):
        return self.connection.call(method, path, body)

    def provision(self, **resources):
        """Returns the new execution's id."""
        self.count += 1
        name = f"{self.name}-{self.count}"
        self.live.add(name)
        made = self.call("POST", "/v1/executions", self.create_body(name, **resources))
        if made["state"] != "provisioned":
            raise WireError(f"not provisioned: {made}")
        return name

    def create_body(self, name, **resources):
        return {"executionId": name, "image": self.image, "workspace": {"kind": "empty"},
                "resources": {**RESOURCES, **resources}, "network": {"mode": "none"}}

    def terminate(self, execution):
        self.call("DELETE", f"/v1/executions/{execution}")
        self.live.discard(execution)

    def execute(self, execution, command, args=()):
        """Returns the command once it has ended with 0."""
        body = {"command": command, "args": list(args)}
        ended = self.call("POST", f"/v1/executions/{execution}/commands", body)
        if ended["exitCode"] != 0:
            raise WireError(f"the command failed: {str(ended)[:500]}")
        return ended

    def memory_kib(self, field):
        """VmRSS, VmHWM … of the service."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines()
                    if line.startswith(f"{field}:"))

    def reset_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def stop(self):
        self.connection.close()  # it may have been idle for too long to be kept by the other side
        for execution in list(self.live):
            try:
                self.terminate(execution)
            except (WireError, OSError):
                self.connection.close()
        self.connection.close()
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def cpu_seconds(pid):
    """What all threads of a process have used, to the nanosecond."""
    return time.clock_gettime(((~pid) << 3) | 2)
