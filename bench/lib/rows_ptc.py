"""Programs: a run from its request to its answer, against a bare Node that does nothing."""
import json
import socket
import subprocess
import time

from lib import machine
from lib.sampling import bounded, compared, interleaved, timed
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
STRIP = "require('node:module').stripTypeScriptTypes('return 1', {mode: 'strip'})"
RETURN = {"program": "return 1", "description": "bench", "bindings": []}


def find_node(bench):
    node = machine.find_node(bench.root)
    if node is None:
        raise WireError("there is no Node 22.13 or newer")
    return node


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
    """ptc-paced, ptc-back-to-back: the latter can't take turns, so the bare one runs before and after."""
    node = find_node(bench)
    service = start(bench)
    try:
        figures = interleaved(bench.samples, lambda: paced(run, service), lambda: paced(bare, node))
        half = -(-bench.samples // 2)
        alone = [timed(bare, node)[0] for _ in range(half)]
        time.sleep(READY_SECONDS)
        runs = [timed(run, service)[0] for _ in range(BACK_TO_BACK)]
        time.sleep(READY_SECONDS)
        alone += [timed(bare, node)[0] for _ in range(half)]
    finally:
        service.stop()
    return [compared("ptc-paced", "POST /v1/ptc/runs, `return 1`, one per 200 ms", "cold `node -e 0`", "ms",
                     figures, PACED_BAR),
            compared("ptc-back-to-back", f"the same {BACK_TO_BACK} times without a pause, refill included",
                     "cold `node -e 0`", "ms", (runs, alone), BACK_TO_BACK_BAR)]


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


ASK = f"""
const socket = new (require('node:net').Socket)({{fd: 3}});
let rest = '', next = null;
socket.on('data', (piece) => {{
    const lines = (rest + piece).split('\\n');
    rest = lines.pop();
    for (const line of lines) next(JSON.parse(line));
}});
const f = (value) => new Promise((resolve) => {{
    next = resolve;
    socket.write(JSON.stringify({{name: 'f', args: [value]}}) + '\\n');
}});
(async () => {{
    for (let i = 0; i !== {CALLS}; i += 1) await f(i);
    process.exit(0);
}})();
"""


def bare_calls(node):
    """Milliseconds from the first call to the program's end."""
    ours, its = socket.socketpair()
    with ours, subprocess.Popen(["bash", "-c", f'exec "$0" -e "$1" 3<&{its.fileno()}', node, ASK],
                                pass_fds=(its.fileno(),)) as program:
        its.close()
        answered = 0
        with ours.makefile("rwb") as stream:
            for line in stream:
                started = started if answered else time.perf_counter()
                json.loads(line)
                stream.write(json.dumps({"ok": True, "value": answered}).encode() + b"\n")
                stream.flush()
                answered += 1
                if answered == CALLS:
                    break
        if program.wait() != 0 or answered != CALLS:
            raise WireError(f"the bare program made {answered} calls")
    return (time.perf_counter() - started) * 1000


def calls(bench):
    node = find_node(bench)
    service = start(bench)
    try:
        figures = interleaved(bench.samples, lambda: answer_calls(service), lambda: bare_calls(node), warm_up=1)
    finally:
        service.stop()
    return [bounded("ptc-calls", f"{CALLS} binding calls in sequence, polled and answered over HTTP",
                    "the same over a bare socketpair", "ms", figures, CALLS_BAR_MS)]
