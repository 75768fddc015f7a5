"""The command line of bench/run."""
import argparse
import pathlib
import signal
import sys

from lib import (machine, report, rows_docker, rows_http, rows_native, rows_native_files, rows_ptc,
                 rows_scale, rows_share)
from lib.bench import Bench
from lib.wire import WireError

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LEAST_SAMPLES = 30
MEASURES = [
    (("docker-provision", "docker-terminate"), rows_docker.lifecycle),
    (("docker-exec",), rows_docker.command),
    (("docker-memory",), rows_docker.memory),
    (("docker-output-memory", "docker-output"), rows_docker.output),
    (("get-execution",), rows_http.get_execution),
    (("native-provision", "native-exec", "native-terminate"), rows_native.lifecycle),
    (("native-provision-cli", "native-exec-cli"), rows_native.command_line),
    (("native-parallel", "native-parallel-alone"), rows_native.parallel),
    (("native-idle-provision", "native-idle-memory", "native-idle-terminate"), rows_native.idle),
    (("native-output",), rows_native_files.output),
    (("native-checkpoint", "native-restore"), rows_native_files.checkpoint),
    (("share",), rows_share.sharing),
    (("ptc-paced", "ptc-back-to-back"), rows_ptc.pooled),
    (("ptc-cold",), rows_ptc.cold),
    (("ptc-calls",), rows_ptc.calls),
    (("native-busy",), rows_scale.busy),
    (("event-streams-memory", "event-streams-get"), rows_scale.streams),
    (("ended-list", "ended-start"), rows_scale.records),
    (("requests-memory",), rows_scale.requests),
]
NAMES = [name for names, _ in MEASURES for name in names]


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/run", description="Measures the release build against what it stands on.")
    parser.add_argument("--only", action="append", choices=NAMES, metavar="ROW",
                        help=f"one row, repeatable; kept nowhere: {', '.join(NAMES)}")
    parser.add_argument("--samples", type=int, default=LEAST_SAMPLES,
                        help=f"of each side; fewer than {LEAST_SAMPLES} are kept nowhere")
    parser.add_argument("--image", required=True,
                        help="pinned reference of an image with sh, sleep, true, head and tr")
    parser.add_argument("--root-tar", required=True, help="the same image's root file system")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="where the binaries are (build/release)")
    parser.add_argument("--socket", default="/var/run/docker.sock", help="the engine's")
    options = parser.parse_args(arguments)
    if options.samples < 1:
        parser.error("--samples must be at least 1")
    return options


def measure(bench, wanted):
    rows = []
    for names, function in MEASURES:
        if wanted.intersection(names):
            print(f"measuring {', '.join(names)}", file=sys.stderr, flush=True)
            rows += [row for row in function(bench) if row["name"] in wanted]
    return rows


def finish(options, facts, rows):
    print(report.circumstances(facts))
    print(report.table(rows))
    if options.only or options.samples < LEAST_SAMPLES:
        print("not kept: that takes all rows and enough samples")
    else:
        report.write_results(ROOT / "bench/results", facts, rows)
        report.write_readme(ROOT / "bench/README.md", facts, rows)
    missed = [row["name"] for row in rows if not row["met"]]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(options.build, (options.image, options.root_tar), options.socket,
                  options.samples)
    command = f"script/bench --samples {options.samples}"
    try:
        facts = machine.facts(ROOT, bench.engine, bench.directory.name, command)
        rows = measure(bench, set(options.only or NAMES))
    except (WireError, OSError) as problem:
        print(f"bench/run: {problem}", file=sys.stderr)
        return 2
    finally:
        bench.done()
    return finish(options, facts, rows)
