"""What a figure depends on: the machine, its disk, the commit, the engine."""
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import time

from lib.sampling import timed

FSYNCS = 30


def first_value(path, key):
    for line in pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def fsync_ms(directory):
    """Median time to append 4 KiB and have them on disk, where the service keeps its data."""
    path = os.path.join(directory, "fsync")
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)

    def write():
        os.write(fd, bytes(4096))
        os.fsync(fd)

    try:
        return round(statistics.median(timed(write)[0] for _ in range(FSYNCS)), 3)
    finally:
        os.close(fd)
        os.unlink(path)


NODE_NEW_ENOUGH = ("const [a, b] = process.versions.node.split('.');"
                   "process.exit(a > 22 || (a == 22 && b >= 13) ? 0 : 1)")


def find_node(root):
    """As the service does: the machine's, or the one that the scripts brought. None: neither."""
    for node in (shutil.which("node"), str(root / "build/node/bin/node")):
        if node and os.path.exists(node) and \
                subprocess.run([node, "-e", NODE_NEW_ENOUGH], check=False).returncode == 0:
            return os.path.realpath(node)
    return None


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip()


def commit(root):
    """The commit, marked where sources differ from it."""
    changed = git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench")
    return (git(root, "rev-parse", "--short=12", "HEAD") or "unknown") + ("+" if changed else "")


# What a version is looked for in; the first number of the first line.
VERSIONS = {"runc": ("runc", "--version"), "crun": ("crun", "--version"),
            "bubblewrap": ("bwrap", "--version"), "tar": ("tar", "--version"),
            "zstd": ("zstd", "--version"), "OpenSSL": ("openssl", "version"),
            "curl": ("curl", "--version")}


def version(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"[0-9]+(\.[0-9]+)+\S*", done.stdout.splitlines()[0] if done.stdout else "")
    return found.group(0).rstrip(",") if found else None


def versions(engine, node):
    found = {name: version(command) for name, command in VERSIONS.items()}
    found = {"Docker": engine.version, "Node": version((node or "node", "--version")), **found}
    return {name: value for name, value in found.items() if value}


def facts(root, engine, directory, command):
    memory_kib = int(first_value("/proc/meminfo", "MemTotal").split()[0])
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit(root),
        "command": command,
        "cpu": first_value("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memoryMiB": memory_kib // 1024,
        "kernel": platform.release(),
        "versions": versions(engine, find_node(root)),
        "fsyncMs": fsync_ms(directory),
        "load": os.getloadavg()[0],
    }
