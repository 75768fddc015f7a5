"""Which Node.js the tests have the service run programs with."""
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
LEAST = (22, 13)


def find():
    """The path, or None: EXECHOST_TEST_NODE, the first of PATH, what script/bootstrap installed."""
    named = os.environ.get("EXECHOST_TEST_NODE")
    installed = sorted(ROOT.glob("build/node/node_modules/node-linux-*/bin/node"))
    for path in (named, shutil.which("node"), *map(str, installed)):
        if path and version(path) >= LEAST:
            return os.path.realpath(path)
    return None


def version(path):
    try:
        text = subprocess.run([path, "--version"], stdout=subprocess.PIPE, timeout=20,
                              check=False).stdout.decode()
    except OSError:
        return (0, 0)
    found = re.match(r"v(\d+)\.(\d+)\.", text)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
