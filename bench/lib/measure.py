"""One measure after the other, each in a process of its own that has a deadline: what hangs or fails
is a row that says so, and the others go on."""
import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
from typing import Callable, NamedTuple

from lib.engine import Engine
from lib.service import Service
from lib.wire import WireError

GRACE_SECONDS = 60
LIVING = "/v1/executions?state=provisioned&limit=200"


class Measure(NamedTuple):
    """`deadline`: seconds, several times what it takes."""
    names: tuple
    function: Callable
    deadline: int = 60


def ended_by_signal(*_):
    raise SystemExit(143)


def child(bench, measure, output):
    """Never returns. What it has started is gone when it ends, unless it is killed."""
    os.setsid()
    signal.signal(signal.SIGTERM, ended_by_signal)
    answer = {"problem": "ended by a signal"}
    try:
        bench.engine = Engine(bench.engine_socket)
        try:
            answer = {"rows": measure.function(bench)}
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            bench.engine.done()
    except (WireError, OSError) as problem:
        answer = {"problem": f"{type(problem).__name__}: {problem}"}
    except Exception:  # pylint: disable=broad-except
        answer = {"problem": traceback.format_exc()}
    finally:
        with os.fdopen(output, "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
        os._exit(0)


def read_until(descriptor, moment):
    """All that comes until the other side closes, or None when it has not by then."""
    text = b""
    while (left := moment - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return text
            text += piece
    return None


def end(pid, descriptor):
    """Asks it to end, then insists."""
    os.kill(pid, signal.SIGTERM)
    if read_until(descriptor, time.monotonic() + GRACE_SECONDS) is not None:
        return
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)


def remove_left(bench, pid):
    """What a killed measure has left: executions by their own services, then containers and files."""
    for directory in bench.places(pid):
        config = directory / "config.json"
        if not config.is_file():
            continue
        service = Service(bench.binary, "", directory, json.loads(config.read_text(encoding="utf-8")))
        try:
            while left := service.call("GET", LIVING)["items"]:
                for execution in left:
                    service.terminate(execution["executionId"])
        finally:
            service.stop()
    for container in bench.engine.find(f"{bench.name}-{pid}-"):
        bench.engine.remove(container)


def problem_row(name, problem):
    return {"name": name, "what": problem.strip().splitlines()[-1][:200], "problem": problem,
            "met": False}


def collect(bench, measure):
    """(answer or None when it was too late, process id)"""
    reading, writing = os.pipe()
    sys.stderr.flush()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(bench, measure, writing)
    os.close(writing)
    text = None
    try:
        text = read_until(reading, time.monotonic() + measure.deadline)
    finally:
        if text is None:
            end(pid, reading)
        os.waitpid(pid, 0)
        os.close(reading)
    return text, pid


def run(bench, measure):
    """The rows; each has the seconds that all of them took together."""
    started = time.monotonic()
    text, pid = collect(bench, measure)
    try:
        if text is None:
            remove_left(bench, pid)
    except (WireError, OSError) as problem:
        print(f"left behind by {measure.names[0]}: {problem}", file=sys.stderr)
    for place in bench.places(pid):
        shutil.rmtree(place, ignore_errors=True)
    seconds = round(time.monotonic() - started, 1)
    if text is None:
        rows = [problem_row(name, f"not within {measure.deadline} s") for name in measure.names]
    else:
        answer = json.loads(text) if text else {"problem": "the measuring process died"}
        rows = answer.get("rows") or [problem_row(name, answer["problem"]) for name in measure.names]
    for row in rows:
        row["seconds"] = seconds
    return rows
