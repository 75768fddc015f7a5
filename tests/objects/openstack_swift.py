"""OpenStack Swift with its S3 API: account, container, object and proxy server in one process.

It answers 501 to every conditional PUT. What it stores lies below its directory and is thrown away
by `stop`.
"""
import os
import pathlib
import secrets
import shutil

from daemon import ServerError, await_true, is_served, start, stop

HERE = pathlib.Path(__file__).resolve().parent


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
        (self.directory / "disk/one").mkdir(parents=True)
        require_attributes(self.directory / "disk")
        secret = self.directory / "users"
        secret.touch(0o600)
        secret.write_text("".join(f"{key} {value} user{number}\n"
                                  for number, (key, value) in enumerate(self.users)))
        # Started from the distribution's Python, whose modules Swift is.
        self.processes.append(start(["/usr/bin/python3", str(HERE / "swift_node.py"),
                                     str(self.directory)], self.log))
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


def require_attributes(directory):
    """Swift keeps what it knows of an object in extended attributes of its file."""
    probe = directory / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.swift.probe", b"x" * 1024)
    except OSError as error:
        raise ServerError(f"{directory}: Swift needs a file system with extended attributes, such "
                          f"as ext4, xfs or a tmpfs of Linux 6.6: {error}") from error
    finally:
        probe.unlink()
