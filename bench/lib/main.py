"""The command line of bench/run."""
import argparse
import pathlib
import signal
import sys
import time

from lib import (machine, measure, report, rows_docker, rows_growth, rows_http, rows_native,
                 rows_native_files, rows_ptc, rows_runtimes, rows_scale, rows_share)
from lib.bench import Bench
from lib.measure import Measure
from lib.wire import WireError

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LEAST_SAMPLES = 30
MEASURES = [
    Measure(("docker-provision", "docker-terminate"), rows_docker.lifecycle, 150),
    Measure(("docker-exec",), rows_docker.command),
    Measure(("docker-memory",), rows_docker.memory, 120),
    Measure(("docker-output-memory", "docker-output"), rows_docker.output, 240),
    Measure(("get-execution",), rows_http.get_execution),
    Measure(("native-provision", "native-exec", "native-terminate"), rows_native.lifecycle),
    Measure(("native-provision-cli", "native-exec-cli", "native-terminate-cli"),
            rows_native.command_line, 240),
    Measure(rows_runtimes.ROWS, rows_runtimes.runtimes, 120),
    Measure(("native-parallel", "native-parallel-alone"), rows_native.parallel, 240),
    Measure(("native-idle-provision", "native-idle-memory", "native-idle-terminate",
             "growth-provision", "growth-exec", "growth-list", "growth-memory"), rows_growth.idle,
            300),
    Measure(("native-output",), rows_native_files.output, 120),
    Measure(("native-checkpoint", "native-restore"), rows_native_files.checkpoint, 600),
    Measure(("share",), rows_share.sharing, 600),
    Measure(("ptc-paced", "ptc-back-to-back"), rows_ptc.pooled, 300),
    Measure(("ptc-cold",), rows_ptc.cold, 120),
    Measure(("ptc-calls",), rows_ptc.calls, 240),
    Measure(("native-busy",), rows_scale.busy, 120),
    Measure(("event-streams-memory", "event-streams-get"), rows_scale.streams, 180),
    Measure(("ended-list", "ended-start"), rows_scale.records, 240),
    Measure(("requests-memory",), rows_scale.requests, 300),
]
NAMES = [name for names, *_ in MEASURES for name in names]


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/run", description="Measures the release build against what it stands on.")
    parser.add_argument("--only", action="append", choices=NAMES, metavar="ROW",
                        help=f"one row, repeatable; kept nowhere: {', '.join(NAMES)}")
    parser.add_argument("--samples", type=int, default=LEAST_SAMPLES,
                        help=f"of each side; fewer than {LEAST_SAMPLES} are kept nowhere")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="the figures, whatever was measured")
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


def measured(bench, wanted):
    rows = []
    for one in MEASURES:
        if wanted.intersection(one.names):
            print(f"measuring {', '.join(one.names)}", file=sys.stderr, flush=True)
            made = measure.run(bench, one)
            print(f"{made[0]['seconds']:8.1f} s", file=sys.stderr, flush=True)
            for row in made:
                if "problem" in row:
                    print(f"{row['name']}: {row['problem']}", file=sys.stderr, flush=True)
            rows += [row for row in made if row["name"] in wanted]
    return rows


def finish(options, facts, rows):
    print(report.circumstances(facts))
    print(report.table(rows))
    if options.json:
        report.write_results(options.json, facts, rows)
    if options.only or options.samples < LEAST_SAMPLES:
        print("not kept: that takes all rows and enough samples")
    else:
        report.write_results(ROOT / "bench/results" / f"{facts['date']}.json", facts, rows)
        report.write_plot(ROOT / "bench/growth.svg", rows)
        report.write_readme(ROOT / "bench/README.md", facts, rows)
    missed = [row["name"] for row in rows if not row["met"]]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    bench = Bench(options.build, (options.image, options.root_tar), options.socket,
                  options.samples)
    command = f"script/bench --samples {options.samples}"
    try:
        facts = machine.facts(ROOT, bench.engine, bench.directory.name, command)
        rows = measured(bench, set(options.only or NAMES))
    except (WireError, OSError) as problem:
        print(f"bench/run: {problem}", file=sys.stderr)
        return 2
    finally:
        bench.done()
    facts["seconds"] = round(time.monotonic() - started)
    return finish(options, facts, rows)
