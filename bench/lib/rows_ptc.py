"""Programs: a run from its request to its answer, against a bare Node that does nothing."""
import json
import os
import shutil
import subprocess
import time

from lib.sampling import absolute, compared, interleaved, timed
from lib.service import Service
from lib.wire import WireError

BACK_TO_BACK = 300
BACK_TO_BACK_BAR = 1
PACE_SECONDS = 0.2
PACED_BAR = 0.15
COLD_BAR = 1.2
CALLS = 1000
CALLS_BAR_MS = 1000
READY_SECONDS = 3
NEW_ENOUGH = ("const [a, b] = process.versions.node.split('.');"
              "process.exit(a > 22 || (a == 22 && b >= 13) ? 0 : 1)")
STRIP = "require('node:module').stripTypeScriptTypes('return 1', {mode: 'strip'})"
RETURN = {"program": "return 1", "description": "bench", "bindings": []}


def find_node(bench):
    """As the service does: the machine's, or the one that the scripts brought."""
    beside = os.path.join(os.path.dirname(bench.binary), "..", "node", "bin", "node")
    for node in (shutil.which("node"), beside):
        if node and os.path.exists(node) and subprocess.run([node, "-e", NEW_ENOUGH], check=False).returncode == 0:
            return os.path.realpath(node)
    raise WireError("there is no Node 22.13 or newer")


def start(bench, **settings):
    service = Service(bench.binary, bench.image, bench.path("ptc"),
                      {"docker": {"socket": bench.engine_socket}, "defaultHost": "docker", "ptc": settings})
    time.sleep(READY_SECONDS)
    return service


def run(service):
    result = service.call("POST", "/v1/ptc/runs", RETURN)["result"]
    if result["value"] != 1:
        raise WireError(f"the run failed: {result}")


def bare(node):
    subprocess.run([node, "-e", "0"], check=True)


def paced(action, *arguments):
    time.sleep(PACE_SECONDS)
    return timed(action, *arguments)[0]


def pooled(bench):
    node = find_node(bench)
    service = start(bench)
    try:
        figures = interleaved(bench.samples, lambda: paced(run, service), lambda: paced(bare, node))
        rows = [compared("ptc-paced", "POST /v1/ptc/runs, `return 1`, one per 200 ms", "cold `node -e 0`", "ms",
                         figures, PACED_BAR)]
        runs = [timed(run, service)[0] for _ in range(BACK_TO_BACK)]
    finally:
        service.stop()
    cold = [timed(bare, node)[0] for _ in range(bench.samples)]
    rows.append(compared("ptc-back-to-back", f"the same {BACK_TO_BACK} times without a pause", "cold `node -e 0`",
                         "ms", (runs, cold), BACK_TO_BACK_BAR))
    return rows


def by_hand(node):
    """What a person would type who wants one program confined."""
    confined = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
                "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin",
                "--proc", "/proc", "--dev", "/dev", "--ro-bind", node, "/node", "/node", "--no-warnings", "-e"]
    subprocess.run(confined + [STRIP.replace("'return 1'", "'0'")], check=True)


def cold(bench):
    node = find_node(bench)
    service = start(bench, poolSize=0)
    try:
        figures = interleaved(bench.samples, lambda: timed(run, service)[0], lambda: timed(by_hand, node)[0])
    finally:
        service.stop()
    return [compared("ptc-cold", "POST /v1/ptc/runs, `return 1`, no pool", "bubblewrap, `node -e 0`, type stripping",
                     "ms", figures, COLD_BAR)]


def answer_calls(service):
    """Milliseconds from the first call to the end of the run."""
    body = {"program": f"for (let i = 0; i !== {CALLS}; i += 1) await t.f(i); return 1", "description": "bench",
            "bindings": [{"global": "t", "functions": ["f"]}]}
    made = service.connection.call("POST", "/v1/ptc/runs?wait=false", body, expect=(202,))
    path = f"/v1/ptc/runs/{made['runId']}"
    answered = 0
    started = None
    while answered < CALLS:
        for call in service.call("GET", f"{path}/calls?state=pending&waitMs=10000")["items"]:
            started = started or time.perf_counter()
            service.call("POST", f"{path}/calls/{call['callId']}", {"ok": True, "value": answered})
            answered += 1
    ended = service.call("GET", f"{path}?waitMs=10000")
    if ended["result"]["value"] != 1:
        raise WireError(f"the run failed: {json.dumps(ended)[:500]}")
    return (time.perf_counter() - started) * 1000


def calls(bench):
    service = start(bench)
    try:
        figures = [answer_calls(service) for _ in range(5)]
    finally:
        service.stop()
    return [absolute("ptc-calls", f"{CALLS} binding calls in sequence, polled and answered over HTTP", "ms", figures,
                     CALLS_BAR_MS)]
