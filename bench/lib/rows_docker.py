"""The Docker host against the engine's own calls, and what the service takes of memory."""
from lib.sampling import WARM_UP, absolute, compared, interleaved, timed
from lib.wire import WireError

RATIO_BAR = 1.15
IDLE_EXECUTIONS = 50
IDLE_BAR_MIB = 40
OUTPUT_BYTES = 64 << 20
OUTPUT_BAR_MIB = 16
PRINT_OUTPUT = ["-c", f"head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x"]


def lifecycle(bench):
    """docker-provision and docker-terminate: the same containers give both."""
    body, _ = bench.bodies()
    service = bench.service()
    removals = ([], [])

    def ours():
        spent, execution = timed(service.provision)
        removals[0].append(timed(service.terminate, execution)[0])
        return spent

    def engines():
        spent, container = timed(bench.engine.provision, bench.container_name(), body)
        removals[1].append(timed(bench.engine.remove, container)[0])
        return spent

    try:
        made = interleaved(bench.samples, ours, engines)
    finally:
        service.stop()
    removed = tuple(side[WARM_UP:] for side in removals)
    return [
        compared("docker-provision", "POST /v1/executions, empty workspace",
                 "the engine's create and start of the same body", "ms", made, RATIO_BAR),
        compared("docker-terminate", "DELETE /v1/executions/{id}", "the engine's forced remove",
                 "ms", removed, RATIO_BAR),
    ]


def command(bench):
    """docker-exec: both in the container of one execution."""
    _, body = bench.bodies()
    service = bench.service()
    try:
        execution = service.provision()
        container = find_container(bench, service, execution)

        def engines():
            code, _ = bench.engine.execute(container, body["User"], ["true"])
            if code != 0:
                raise WireError(f"the engine's own exec ended with {code}")

        figures = interleaved(bench.samples,
                              lambda: timed(service.execute, execution, "true")[0],
                              lambda: timed(engines)[0])
    finally:
        service.stop()
    return [compared("docker-exec", "POST …/commands, `true`",
                     "the engine's exec create, start and inspect", "ms", figures, RATIO_BAR)]


def find_container(bench, service, execution):
    """The one that was made for an execution of this very service."""
    found = bench.engine.find(f"-{execution}-1")
    if len(found) != 1:
        raise WireError(f"{len(found)} containers could be that of {execution}")
    return found[0]


def memory(bench):
    """docker-memory: resident with idle executions."""
    service = bench.service()
    try:
        for _ in range(IDLE_EXECUTIONS):
            service.provision()
        resident = service.memory_kib("VmRSS") / 1024
    finally:
        service.stop()
    return [absolute("docker-memory", f"resident memory with {IDLE_EXECUTIONS} idle executions",
                     "MiB", [resident], IDLE_BAR_MIB)]


def output(bench):
    """docker-output: how far memory grows while much output passes, and how fast it passes."""
    _, body = bench.bodies()
    service = bench.service()
    growth = []
    try:
        execution = service.provision(maxOutputBytes=OUTPUT_BYTES)
        container = find_container(bench, service, execution)
        service.execute(execution, "true")
        # Once, before any: memory kept after the first output must not pass for what was there.
        before = service.memory_kib("VmRSS")

        def ours():
            service.reset_peak()
            spent, ended = timed(service.execute, execution, "sh", PRINT_OUTPUT)
            if ended["stdoutBytes"] != OUTPUT_BYTES or ended["truncated"]:
                raise WireError("output was lost")
            growth.append((service.memory_kib("VmHWM") - before) / 1024)
            return spent

        def engines():
            spent, (code, size) = timed(bench.engine.execute, container, body["User"],
                                        ["sh", *PRINT_OUTPUT])
            if code != 0 or size < OUTPUT_BYTES:
                raise WireError("the engine's own exec lost output")
            return spent

        figures = interleaved(bench.samples, ours, engines)
    finally:
        service.stop()
    return [
        absolute("docker-output-memory", "growth of peak memory over 64 MiB of output", "MiB",
                 growth, OUTPUT_BAR_MIB),
        compared("docker-output", "64 MiB of output, kept on disk",
                 "the engine's exec of the same, output thrown away", "ms", figures, None),
    ]
