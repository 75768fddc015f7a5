"""What the tests of this directory share: one service of the binary under test, and calls to it."""
import copy
import importlib.util
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance"))
from lib import client, native, service  # noqa: E402  (what the conformance table is run with)


class Failure(Exception):
    """What was promised and not found."""


class Context:
    """One test's: a directory, a service of its own, the images. Any thread may call."""

    def __init__(self, options, directory, lean=False, images=None):
        """`images` are those that the native host needs, None: all."""
        self.options = options
        self.binary = pathlib.Path(options.binary).resolve()
        self.host = options.host
        self.directory = directory
        self.timeout = 180  # of a call, in seconds
        self.faulty = False  # the test makes the service fail, which may say so in its log
        self.images = json.loads(pathlib.Path(options.images).read_text(encoding="utf-8"))
        self.settings = {"native": {"images": str(directory / "images")}}
        self.service = service.Service(self.binary, directory / "service", self.settings, lean=lean)
        if self.host == "native":
            needed = {name: self.images[name] for name in images or self.images}
            native.import_images(self.binary, needed, self.service.config_path, directory)
        self.service.start()

    def other(self, name, host, settings, lean=False):
        """One more of this test, with a service that is not started, and the same images."""
        more = copy.copy(self)
        more.host = host
        more.settings = {**self.settings, **settings}
        more.service = service.Service(self.binary, self.directory / name, more.settings, lean=lean)
        return more

    def close(self):
        self.service.stop()
        if not self.faulty:
            self.service.check_log()

    def restart(self, kill):
        """The service killed, or stopped in good order, and started again."""
        if kill:
            self.service.kill()
        else:
            self.service.stop()
        self.service.start()

    def has_sanitizer(self):
        return b"__asan_init" in self.binary.read_bytes()

    def start_command(self, execution, script, **more):
        """Queues a shell script; the path of the command."""
        body = {"command": "/bin/sh", "args": ["-c", script], **more}
        answer = self.expect(202, "POST", f"{execution}/commands?wait=false", json=body)
        return f"{execution}/commands/{answer.json()['commandId']}"

    def run_command(self, execution, script, **more):
        """Runs a shell script, which has to exit with 0; the path of the command."""
        body = {"command": "/bin/sh", "args": ["-c", script], **more}
        command = self.expect(201, "POST", f"{execution}/commands", json=body).json()
        if command["exitCode"] != 0:
            raise Failure(f"{script}: {command}")
        return f"{execution}/commands/{command['commandId']}"

    def say(self, text):
        print(f"     {text}", flush=True)

    def call(self, method, path, body=None, json=None, headers=None, timeout=None):
        headers = dict(headers or {})
        if json is not None:
            body = encode(json)
            headers["Content-Type"] = "application/json"
        return client.call(self.service.address, method, path, headers, body, timeout or self.timeout)

    def expect(self, status, method, path, body=None, json=None, headers=None):
        answer = self.call(method, path, body, json, headers)
        if answer.status != status:
            raise Failure(f"{method} {path}: expected {status}, got {answer.brief()}")
        return answer

    def provision(self, resources=None, **more):
        """The path of a new execution."""
        body = {"image": self.images["base"]["id"], "workspace": {"kind": "empty"},
                "resources": {"cpus": 1, "memoryBytes": 256 << 20, "diskBytes": 64 << 20, "pids": 64,
                              "runtimeMs": 3600000, "maxOutputBytes": 1 << 20, **(resources or {})},
                "network": {"mode": "none"}, "host": self.host, **more}
        answer = self.expect(201, "POST", "/v1/executions", json=body).json()
        return f"/v1/executions/{answer['executionId']}"

    def clean(self):
        """Ends every execution that the test has left."""
        while True:
            items = self.call("GET", "/v1/executions?state=provisioned&limit=200").json()["items"]
            if not items:
                return
            for item in items:
                self.expect(204, "DELETE", f"/v1/executions/{item['executionId']}")


def encode(value):
    return json.dumps(value).encode()


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
