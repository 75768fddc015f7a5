"""The native host against the kernel's floor and against the engine's command line."""
import subprocess
import threading
import time

from lib.sampling import WARM_UP, bounded, compared, interleaved, timed
from lib.wire import Connection, WireError

PROVISION_BAR = 3
EXEC_BAR = 2.5
TERMINATE_BAR_MS = 5
CLI_PROVISION_BAR = 1 / 50
CLI_EXEC_BAR = 1 / 30
REST_SECONDS = 0.3
PARALLEL = 16
CYCLES = 160
PARALLEL_BAR = 2


def lifecycle(bench):
    """The same sandboxes give all three."""
    service = bench.native_service()
    floor = bench.floor(service.root)
    others = {"exec": ([], []), "terminate": ([], [])}

    def ours():
        spent, execution = timed(service.provision)
        others["exec"][0].append(timed(service.execute, execution, "/bin/true")[0])
        others["terminate"][0].append(timed(service.terminate, execution)[0])
        return spent

    def kernels():
        spent = floor.ask("provision")
        others["exec"][1].append(floor.ask("exec"))
        others["terminate"][1].append(floor.ask("terminate"))
        return spent

    try:
        made = interleaved(bench.samples, ours, kernels)
    finally:
        floor.done()
        service.stop()
    ran, removed = (tuple(side[WARM_UP:] for side in others[name]) for name in others)
    return [
        compared("native-provision", "POST /v1/executions, empty workspace",
                 "the kernel's floor: the same isolation without a service", "ms", made,
                 PROVISION_BAR),
        compared("native-exec", "POST …/commands, `true`",
                 "the kernel's floor: fork, setns, exec, wait", "ms", ran, EXEC_BAR),
        bounded("native-terminate", "DELETE /v1/executions/{id}, all gone at the answer",
                "the kernel's floor: kill, reap, remove the groups", "ms", removed,
                TERMINATE_BAR_MS),
    ]


def docker(*arguments):
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WireError(f"docker {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def command_line(bench):
    """What a library that wraps the command line does: `docker create`, `start`, `exec`, `rm`."""
    image = f"sha256:{bench.image.rpartition(':')[2]}"
    service = bench.native_service()
    others = {"exec": ([], []), "terminate": ([], [])}

    def ours():
        spent, execution = timed(service.provision)
        others["exec"][0].append(timed(service.execute, execution, "/bin/true")[0])
        others["terminate"][0].append(timed(service.terminate, execution)[0])
        return spent

    def start(name):
        docker("create", "--name", name, "--network", "none", image, "sleep", "3600")
        docker("start", name)

    def theirs():
        name = bench.container_name()
        try:
            spent = timed(start, name)[0]
            others["exec"][1].append(timed(docker, "exec", name, "true")[0])
        finally:
            others["terminate"][1].append(timed(docker, "rm", "--force", name)[0])
        return spent

    # The kernel takes a container's namespaces and groups apart after `docker rm` has answered; that
    # is no part of what either side does next.
    def rested(side):
        time.sleep(REST_SECONDS)
        return side()

    try:
        made = interleaved(bench.samples, lambda: rested(ours), lambda: rested(theirs))
    finally:
        service.stop()
    ran, removed = (tuple(side[WARM_UP:] for side in others[name]) for name in others)
    return [
        compared("native-provision-cli", "POST /v1/executions, empty workspace",
                 "`docker create` and `docker start`", "ms", made, CLI_PROVISION_BAR),
        compared("native-exec-cli", "POST …/commands, `true`", "`docker exec`", "ms", ran,
                 CLI_EXEC_BAR),
        compared("native-terminate-cli", "DELETE /v1/executions/{id}", "`docker rm --force`", "ms",
                 removed, None),
    ]


def cycle(service, connection, name):
    connection.call("POST", "/v1/executions", service.create_body(name))
    ended = connection.call("POST", f"/v1/executions/{name}/commands", {"command": "/bin/true"})
    if ended["exitCode"] != 0:
        raise WireError(f"the command failed: {str(ended)[:500]}")
    connection.call("DELETE", f"/v1/executions/{name}")


def cycles(service, count, clients, prefix):
    """Milliseconds a cycle, all of them together."""
    problems = []

    def client(number):
        connection = Connection(service.address)
        try:
            for i in range(count // clients):
                cycle(service, connection, f"{prefix}-{number}-{i}")
        except (WireError, OSError) as problem:
            problems.append(problem)
        finally:
            connection.close()

    def all_of_them():
        threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    spent = timed(all_of_them)[0]
    if problems:
        raise problems[0]
    return spent / (count // clients * clients)


def parallel(bench):
    """Sixteen clients at once, against the floor at sixteen and against one client alone."""
    service = bench.native_service()
    floor = bench.floor(service.root)
    turns = iter(range(1 << 30))
    alone = []

    def ours():
        turn = next(turns)
        alone.append(cycles(service, CYCLES // 4, 1, f"one-{turn}"))
        return cycles(service, CYCLES, PARALLEL, f"many-{turn}")

    def kernels():
        return 1000 / floor.ask(f"cycles {CYCLES} {PARALLEL}")

    try:
        figures = interleaved(bench.samples, ours, kernels, warm_up=1)
    finally:
        floor.done()
        service.stop()
    return [
        compared("native-parallel", "provision, exec, terminate, 16 clients at once: time a cycle",
                 "the kernel's floor, 16 at once", "ms", figures, PARALLEL_BAR),
        compared("native-parallel-alone", "the same", "one client alone", "ms",
                 (figures[0], alone[1:]), 1),
    ]
