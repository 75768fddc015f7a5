"""What a process of the pool takes while it waits for a program: its share of memory, seen from outside."""
import pathlib
import re
import time

from context import Failure
from mixed_output import check

HOSTS = ("native",)
IMAGES = ("base",)
BOUND_KIB = 60 << 10
READY = 2
DEADLINE_SECONDS = 300


def read(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def parent_of(pid):
    found = re.search(r"^PPid:\s+(\d+)$", read(pid, "status"), re.M)
    return int(found.group(1)) if found else 0


def descendants(root):
    parents = {int(entry.name): parent_of(entry.name) for entry in pathlib.Path("/proc").iterdir()
               if entry.name.isdigit()}
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def waiting(service):
    """CPU ticks and share of memory in KiB of each process that waits for a program, by pid."""
    found = {}
    for pid in descendants(service):
        if "bootstrap/main.mjs" in read(pid, "cmdline") and "bwrap" not in read(pid, "comm"):
            share = re.search(r"^Pss:\s+(\d+) kB$", read(pid, "smaps_rollup"), re.M)
            ticks = read(pid, "stat").rpartition(")")[2].split()[11:13]
            if share and ticks:
                found[pid] = (ticks, int(share.group(1)))
    return found


def settled(service):
    """Once there are as many as there shall be, and none has done anything for a second."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    before = {}
    while time.monotonic() < deadline:
        now = waiting(service)
        quiet = all(before.get(pid, [None])[0] == ticks for pid, (ticks, _) in now.items())
        if len(now) == READY and quiet:
            return now
        before = now
        time.sleep(1)
    raise Failure(f"no {READY} processes came to wait: {before}")


def run(context):
    service = context.service.process.pid
    first = settled(service)
    made = context.expect(201, "POST", "/v1/ptc/runs", json={"program": "return 1", "description": "x", "bindings": []})
    check(made.json()["result"]["value"] == 1, made.brief())
    again = settled(service)
    check(set(first) != set(again), "the process that ran a program still waits for one")
    shares = [share for _, share in [*first.values(), *again.values()]]
    context.say(f"shares of memory: {', '.join(f'{share >> 10} MiB' for share in shares)}")
    check(max(shares) <= BOUND_KIB, f"a process that waits takes {max(shares)} KiB")
