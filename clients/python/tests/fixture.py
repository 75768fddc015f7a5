"""What the tests share: a client of the service under test, and the harness's control."""
import os
import pathlib
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from exechost import ExecutionHostError, HttpExecutionHost  # noqa: E402

URL = os.environ.get("EXECHOST_TEST_URL", "http://127.0.0.1:8470")
REQUEST = {
    "image": os.environ.get("EXECHOST_TEST_IMAGE"),
    "workspace": {"kind": "empty"},
    "resources": {"cpus": 1, "memoryBytes": 256 << 20, "diskBytes": 32 << 20, "pids": 64,
                  "runtimeMs": 3600000, "maxOutputBytes": 32 << 20},
    "network": {"mode": "none"},
}


def control(action):
    """What the harness can do: see clients/lib/harness.py."""
    request = urllib.request.Request(f"{os.environ['EXECHOST_TEST_CONTROL']}/{action}",
                                     method="POST")
    urllib.request.urlopen(request, timeout=300).close()


def shell(script, **more):
    return {"command": "/bin/sh", "args": ["-c", script], **more}


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.host = HttpExecutionHost(URL)
        self.addCleanup(self.host.transport.close)

    def provision(self, **more):
        """A new execution for one test, which is terminated at its end."""
        execution_id = self.host.provision({**REQUEST, **more})["executionId"]
        self.addCleanup(self.host.terminate, execution_id)
        return execution_id

    def wait_for_output(self, execution_id, command_id, text):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if self.host.command(execution_id, command_id)["stdout"] == text:
                    return
            except ExecutionHostError as error:
                self.assertEqual(error.code, "COMMAND_NOT_FOUND")
            time.sleep(0.02)
        self.fail(f"{command_id} has not printed {text!r}")

    def refused(self, code, call, **fields):
        with self.assertRaises(ExecutionHostError) as caught:
            call()
        found = {name: getattr(caught.exception, name) for name in ("code", *fields)}
        self.assertEqual(found, {"code": code, **fields})
        return caught.exception
