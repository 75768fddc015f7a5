"""Command line, order of rows, report."""
import argparse
import concurrent.futures
import fnmatch
import pathlib
import shutil
import sys
import tempfile
import threading
import time
import traceback

from . import engine, layout, native, selftest, table
from .bridge import Bridge
from .row import Row
from .service import has_fault_points
from .world import HERE, World

PRINT = threading.Lock()


def say(text):
    with PRINT:
        print(text, flush=True)


def options():
    parser = argparse.ArgumentParser(description="Runs the conformance table.")
    parser.add_argument("--binary", help="the service's binary")
    parser.add_argument("--host", default="docker", choices=["docker", "native"])
    parser.add_argument("--only", action="append", help="row ids, shell patterns")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--images", default=str(HERE.parents[1] / "build/test-images.json"))
    parser.add_argument("--engine-socket", default=engine.DEFAULT_SOCKET)
    parser.add_argument("--slow", type=float, default=1.0, help="factor on every time bound")
    parser.add_argument("--no-skip", action="store_true", help="a skipped row is a failure")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run")
    parser.add_argument("--client", help="a bridge that makes the operations by a client library")
    parser.add_argument("--list", action="store_true", help="print id and anchor of each row")
    parser.add_argument("--self-test", action="store_true",
                        help="prove that the check of answers bites")
    parser.add_argument("--format", action="store_true", help="lay the tables out anew")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args()


class Report:
    def __init__(self, verbose):
        self.verbose = verbose
        self.passed = 0
        self.failed = []
        self.skipped = []
        self.lock = threading.Lock()

    def row(self, row, seconds, error):
        with self.lock:
            if error:
                self.failed.append(row["id"])
            else:
                self.passed += 1
        if error:
            say(f"FAIL {row['id']} ({row['anchor']})\n     promise: {row['promise']}\n"
                f"     {error}")
        elif self.verbose:
            say(f"ok   {row['id']} {seconds:.1f} s")

    def other(self, name, error):
        with self.lock:
            self.failed.append(name)
        say(f"FAIL {name}\n     {error}")

    def skip(self, row, missing):
        with self.lock:
            self.skipped.append(row["id"])
        say(f"SKIP {row['id']}: {missing}")


def run_row(world, report, row):
    started = time.monotonic()
    error = None
    try:
        Row(world, row).run()
    except Exception as caught:  # a row never ends the run
        error = f"{type(caught).__name__}: {caught}"
        if isinstance(caught, (ValueError, LookupError, TypeError, AttributeError)):
            error += "\n" + traceback.format_exc(limit=-6)
    report.row(row, time.monotonic() - started, error)


def run_rows(world, report, rows, jobs):
    alone = [row for row in rows if row.get("exclusive")]
    together = [row for row in rows if not row.get("exclusive")]
    together.sort(key=lambda row: -row.get("seconds", 1))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda row: run_row(world, report, row), together))
    for row in alone:
        run_row(world, report, row)


def missing_for(world, row):
    for need in row.get("needs", []):
        if need == "engine-restart" and not engine.can_restart():
            return "EXECHOST_ENGINE_PID and EXECHOST_ENGINE_RESTART are not set"
        if need == "engine" and not world.engine.available():
            return "no Docker engine answers"
        if need == "faults" and not has_fault_points(world.binary):
            return "the binary was built without fault points"
    if row["id"].startswith("ptc-") and world.node is None:
        return "there is no Node.js of 22.13 or newer"
    return None


def runnable(world, report, rows):
    result = []
    for row in rows:
        missing = missing_for(world, row)
        if missing:
            report.skip(row, missing)
        else:
            result.append(row)
    return result


def check_end(world, report):
    """Nothing is left of the shared service, and it ends clean."""
    try:
        instance = instance_of(world)
        world.service.stop()
        world.service.check_log()
        left = world.engine.left_of(instance) if world.host == "docker" else \
            native.left_of(instance, world.service.data)
        if left:
            report.other("after all rows", f"left behind: {left}")
    except Exception as caught:  # the report is the only place it can go
        report.other("after all rows", f"{type(caught).__name__}: {caught}")
        world.service.kill()


def instance_of(world):
    from . import client
    return client.call(world.service.address, "GET", "/v1/host").json()["instanceId"]


def check_samples(world, report):
    """The answers that were seen, mutated as the self test mutates the examples."""
    for (method, template, status), (schema, value) in sorted(world.samples.items(), key=str):
        if template == "/openapi.json":
            continue
        _, wrong = selftest.survivors(world.document, schema, value)
        if wrong:
            report.other(f"schema of {method} {template} {status}", f"accepts: {wrong[:5]}")


def check_examples(report):
    """The self test, as one case of every complete run."""
    tried, problems = selftest.check()
    if problems or not tried:
        report.other("schema self test", "; ".join(problems[:5]) or "nothing was tried")
    else:
        report.passed += 1


def main():
    arguments = options()
    if arguments.self_test:
        return selftest.run()
    if arguments.format:
        layout.rewrite(HERE)
        return 0
    rows = table.load(HERE, arguments.host, bool(arguments.only))
    if arguments.only:
        rows = [row for row in rows
                if any(fnmatch.fnmatch(row["id"], pattern) for pattern in arguments.only)]
    if arguments.list:
        for row in rows:
            print(f"{row['id']}\t{row['anchor']}\t{row['promise']}")
        return 0
    if not arguments.binary:
        print("run: --binary is missing", file=sys.stderr)
        return 2
    return run(arguments, rows)


def run(arguments, rows):
    report = Report(arguments.verbose)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="conformance-"))
    world = World(arguments, directory)
    rows = runnable(world, report, rows)
    try:
        world.start_shared()
        if not arguments.only:
            check_examples(report)
        if arguments.client:
            world.bridge = Bridge(arguments.client)
        run_rows(world, report, rows, arguments.jobs)
        check_samples(world, report)
        check_end(world, report)
    finally:
        if world.bridge:
            world.bridge.close()
        if world.service:
            world.service.kill()
        if arguments.keep or report.failed:
            say(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    failed = len(report.failed) + (len(report.skipped) if arguments.no_skip else 0)
    if report.skipped:
        print(f"{len(report.skipped)} skipped")
    if world.bridge:
        print(f"{world.bridge.summary()} were made by the client")
    print(f"{report.passed} passed, {failed} failed")
    return 1 if failed else 0
