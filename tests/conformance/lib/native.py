"""What the table needs of the native host besides the service: its images, and what is left of it."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

GROUPS = pathlib.Path("/proc/self/mounts")


class NativeError(Exception):
    """An image could not be imported."""


def import_images(binary, images, config_path, directory):
    """Puts the archives of the test images into a store that all services of the run share."""
    for name, forms in images.items():
        done = subprocess.run(
            [str(binary), "image", "import", "--host", "native", "--config", str(config_path),
             "--name", name, forms["archive"]],
            cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
        if done.returncode != 0 or done.stdout.decode().strip() != forms["id"]:
            raise NativeError(f"{name}: {done.stdout.decode()}{done.stderr.decode()}")


def hierarchies():
    """Where control groups are mounted."""
    for line in GROUPS.read_text(encoding="utf-8").splitlines():
        _, where, kind, _ = line.split(" ", 3)
        if kind in ("cgroup", "cgroup2"):
            yield pathlib.Path(where)


def members(group):
    try:
        return (group / "cgroup.procs").read_text().split()
    except OSError:
        return []  # it has gone meanwhile


def is_of(key, execution):
    """Groups and directories are called "TENANT,EXECUTION,INCARNATION". "*" is every execution."""
    parts = key.split(",")
    return len(parts) == 3 and execution in ("*", parts[1])


def groups_of(instance, execution=None):
    """Control groups; the instance's own count where no execution is named."""
    for root in hierarchies():
        own = root / f"exechost-{instance}"
        if not own.is_dir():
            continue
        if execution is None:
            yield own
        for path in sorted(own.iterdir()):
            if path.is_dir() and (execution is None or is_of(path.name, execution)):
                yield path


def shims():
    """(pid, working directory) of every process that holds an execution."""
    for path in pathlib.Path("/proc").iterdir():
        try:
            if path.name.isdigit() and (path / "comm").read_text().strip() == "exechost-shim":
                yield int(path.name), str((path / "cwd").resolve())
        except OSError:
            continue


def left_of(instance, data, execution=None):
    """Processes, control groups, directories and mounts. Those of the service itself count as well
    where no execution is named, so only once it has ended."""
    left = [f"group {path}" for path in groups_of(instance, execution)]
    left += [f"process {pid}" for path in groups_of(instance, execution)
             for pid in members(path)]
    run = pathlib.Path(data) / "native" / "run"
    if run.is_dir():
        left += [f"directory {path}" for path in sorted(run.iterdir())
                 if (execution is None or is_of(path.name, execution))]
    if execution is None:
        left += [f"shim {pid}" for pid, where in shims() if where.startswith(str(run))]
        mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        left += [f"mount {line}" for line in mounts.splitlines() if f"{data}/native" in line]
    return left


def shims_of(data, execution):
    run = str(pathlib.Path(data) / "native" / "run") + "/"
    return [pid for pid, where in shims()
            if where.startswith(run) and is_of(where[len(run):], execution)]


def act(instance, data, execution, verb):
    """pause, or kill what holds it, or remove all that runs of it: behind the service's back."""
    groups = list(groups_of(instance, execution))
    if verb == "pause":
        for path in groups:
            if (path / "cgroup.freeze").exists():
                (path / "cgroup.freeze").write_text("1")
        return
    for pid in shims_of(data, execution):
        kill(pid)
    if verb == "remove":
        for path in groups:
            for pid in members(path):
                kill(int(pid))


def is_paused(instance, execution):
    return any("frozen 1" in (path / "cgroup.events").read_text()
               for path in groups_of(instance, execution) if (path / "cgroup.events").exists())


def limits_of(instance, execution):
    """What the kernel has for it, whichever version tells; -1 is no bound."""
    names = {"memory.limit_in_bytes": "memory", "memory.max": "memory",
             "memory.memsw.limit_in_bytes": "memoryAndSwap", "memory.swap.max": "swap",
             "pids.max": "pids", "cpu.cfs_quota_us": "cpuQuotaUs", "cpu.cfs_period_us":
             "cpuPeriodUs", "cpu.max": "cpu"}
    found = {}
    for path in groups_of(instance, execution):
        for file, name in names.items():
            if (path / file).exists():
                text = (path / file).read_text().strip()
                found[name] = int(text) if text.lstrip("-").isdigit() else text
    if "cpu" in found:
        found["cpuQuotaUs"], found["cpuPeriodUs"] = (int(n) for n in found.pop("cpu").split())
    return found


def take_away(instance, data):
    """Ends by force what a row left, for the rows to come."""
    run = pathlib.Path(data) / "native" / "run"
    for pid, where in shims():
        if where.startswith(str(run)):
            kill(pid)
    deadline = time.monotonic() + 10
    while any(path for path in groups_of(instance)) and time.monotonic() < deadline:
        for path in groups_of(instance):
            for pid in members(path):
                kill(int(pid))
        for path in reversed(list(groups_of(instance))):
            try:
                path.rmdir()
            except OSError:
                pass  # a process of it is still dying
        time.sleep(0.05)
    shutil.rmtree(run, ignore_errors=True)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
