"""A thousand executions at once, and what an operation costs on the way there."""
import os
import pathlib
import time

from lib.sampling import absolute, compared, timed
from lib.wire import WireError

IDLE = 1000
IDLE_SECONDS = 30
IDLE_MEMORY_MIB = 2
LEVELS = (1, 10, 100, IDLE)
LIST = "/v1/executions?limit=50"
SMALL = {"cpus": 0.01, "memoryBytes": 16 << 20, "diskBytes": 1 << 20, "pids": 8}
# A hundredth of a processor would measure the limit.
FIRST = {**SMALL, "cpus": 1}
SAID = {"provision": ("POST /v1/executions", "ms"), "exec": ("POST …/commands, `true`", "ms"),
        "list": ("a page of the list", "ms"), "memory": ("own memory, service and shims", "MiB")}


def proportional_kib(pid):
    """The process's share of what it maps; 0 when it is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def shims(service):
    """The processes that hold a service's executions, with process 1 of each below them."""
    place = str((service.data / "native/run").resolve())
    parents, found = {}, set()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and \
                    (entry / "comm").read_text(encoding="ascii").startswith("exechost-shim"):
                parents[entry.name] = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if os.readlink(entry / "cwd").startswith(place):
                    found.add(entry.name)
        except OSError:
            pass  # it has ended meanwhile
    return found | {pid for pid, parent in parents.items() if parent in found}


class Idle:
    """A service and the executions that idle in it."""

    def __init__(self, service):
        self.service = service
        self.seconds = 0
        self.before = service.memory_kib("VmRSS")
        self.first = None

    def grow(self, count):
        """Until there are so many."""
        service = self.service
        if not service.live:
            spent, self.first = timed(lambda: service.provision(**FIRST))
            self.seconds += spent / 1000
        missing = count - len(service.live)
        self.seconds += timed(lambda: [service.provision(**SMALL) for _ in range(missing)])[0] / 1000

    def memory_mib(self):
        """Of all of them, above what the service took without any."""
        own = shims(self.service)
        if len(own) < len(self.service.live):
            raise WireError(f"{len(own)} shims hold {len(self.service.live)} executions")
        grown = self.service.memory_kib("VmRSS") - self.before
        return (sum(proportional_kib(pid) for pid in own) + grown) / 1024

    def costs(self, samples):
        """{what: figures} with as many executions as there are."""
        service = self.service
        figures = {"memory": [self.memory_mib()], "provision": [], "exec": [], "list": []}
        for _ in range(samples):
            spent, execution = timed(lambda: service.provision(**SMALL))
            service.terminate(execution)
            figures["provision"].append(spent)
            figures["exec"].append(timed(service.execute, self.first, "/bin/true")[0])
            figures["list"].append(timed(service.call, "GET", LIST)[0])
        return figures

    def end(self):
        """Seconds that it takes to terminate all of them; WireError when anything is left."""
        service = self.service
        ended = list(service.live)

        def all_of_them():
            for name in ended:
                service.terminate(name)
            # A shim answers before it ends.
            until = time.monotonic() + IDLE_SECONDS
            while shims(service) and time.monotonic() < until:
                time.sleep(0.05)

        spent = timed(all_of_them)[0]
        left = [f"{above}/{name}" for place in ("/sys/fs/cgroup", service.data / "native/run")
                for above, below, _ in os.walk(place) for name in below
                if name.count(",") == 2 and name.split(",")[1] in set(ended)]
        left += [f"process {pid}" for pid in shims(service)]
        if left:
            raise WireError(f"{len(left)} things are left: {left[0]}")
        return spent / 1000


def growth_row(name, levels):
    """The most against the least; every level is kept."""
    what, unit = SAID[name]
    figures = [levels[count][name] for count in LEVELS]
    row = compared(f"growth-{name}", f"{what}, with {IDLE} executions", f"with {LEVELS[0]}", unit,
                   (figures[-1], figures[0]), None)
    return {**row, "levels": [{"executions": count, "samples": levels[count][name]} for count in LEVELS]}


def idle(bench):
    service = bench.native_service()
    levels = {}
    try:
        service.terminate(service.provision(**SMALL))
        them = Idle(service)
        for count in LEVELS:
            them.grow(count)
            levels[count] = them.costs(bench.samples)
        held = levels[IDLE]["memory"][0]
        removed = them.end()
    finally:
        service.stop()
    return [
        absolute("native-idle-provision", f"{IDLE} idle executions, one after the other", "s",
                 [them.seconds], IDLE_SECONDS),
        absolute("native-idle-memory", "own memory of each, service and shim", "MiB", [held / IDLE],
                 IDLE_MEMORY_MIB),
        absolute("native-idle-terminate", "all of them terminated, nothing left", "s", [removed],
                 IDLE_SECONDS),
        *(growth_row(name, levels) for name in SAID),
    ]
