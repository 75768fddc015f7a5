"""OpenStack Swift with its S3 API in one process, as docker/store has it.

It answers 501 to every conditional PUT. What it stores lies below its directory and is thrown away
by `stop`.
"""
import pathlib
import secrets
import shutil

from daemon import await_true, is_served, start, stop

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "docker/store/swift_node.py"


class Swift:
    name = "swift"

    def __init__(self, directory):
        self.directory = directory
        self.log = directory / "start.log"
        self.processes = []
        self.users = [("AK" + secrets.token_hex(9).upper(), secrets.token_hex(20))
                      for _ in range(2)]
        self.port = 0

    def start(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        secret = self.directory / "users"
        secret.touch(0o600)
        secret.write_text("".join(f"{key} {value} user{number}\n"
                                  for number, (key, value) in enumerate(self.users)))
        # Started from the distribution's Python, whose modules Swift is.
        self.processes.append(start(["/usr/bin/python3", "-B", str(PROGRAM), str(self.directory)],
                                    self.log))
        await_true("Swift", self.answers, self.processes, self.log)

    def answers(self):
        ready = self.directory / "port"
        if not ready.exists():
            return False
        self.port = int(ready.read_text())
        return is_served(self.port, "/healthcheck")

    def stop(self):
        stop(self.processes)
        shutil.rmtree(self.directory / "disk", ignore_errors=True)
