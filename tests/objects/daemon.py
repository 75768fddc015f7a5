"""A server's process: it dies with the one that started it, whatever ends that one."""
import ctypes
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
START_SECONDS = 120
LIBC = ctypes.CDLL(None, use_errno=True)


class ServerError(Exception):
    """A server, or what it takes to start it, failed."""


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, log, environment=None):
    """The process, in a session of its own; what it says is appended to `log`."""
    with open(log, "ab") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                env={**os.environ, **(environment or {})},
                                start_new_session=True, preexec_fn=die_with_parent)


def run(command, log):
    """To its end, which has to be a good one."""
    with open(log, "ab") as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                              timeout=START_SECONDS, check=False)
    if done.returncode != 0:
        raise ServerError(f"{' '.join(command)}: status {done.returncode}: {tail(log)}")


def stop(processes):
    """What they would still write is thrown away: they need no time to end."""
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()


def await_true(what, condition, processes, log):
    """Polls until `condition` holds, as long as all processes live."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        for process in processes:
            if process.poll() is not None:
                raise ServerError(f"{what}: {process.args[0]} ended: {tail(log)}")
        if time.monotonic() > deadline:
            raise ServerError(f"{what}: not within {START_SECONDS} s: {tail(log)}")
        time.sleep(0.05)


def is_served(port, path):
    """Whether a server of this machine answers 200 there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def tail(log):
    path = pathlib.Path(log)
    return path.read_text("utf-8", "replace")[-1500:] if path.exists() else ""


def hold_port():
    """A port of loopback that nobody else gets while the socket is open: it is bound and never
    listens, so a server that sets SO_REUSEADDR may listen there all the same."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held, held.getsockname()[1]
