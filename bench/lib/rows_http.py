"""What answering takes of the processor, against a constant answer."""
import os
import subprocess

from lib.sampling import compared, interleaved
from lib.service import cpu_seconds
from lib.wire import Connection, WireError

REQUESTS = 300
RATIO_BAR = 2


def cost(connection, pid, path):
    """Microseconds of CPU time per request, over many on one connection. A side that closes it
    would pay for connecting too, so that is an error."""
    before = connection.socket
    started = cpu_seconds(pid)
    for _ in range(REQUESTS):
        status, _ = connection.request("GET", path)
        if status != 200 or connection.socket is not before:
            raise WireError(f"GET {path}: status {status}, or the connection was not kept")
    return (cpu_seconds(pid) - started) / REQUESTS * 1e6


def pin(pid, cores):
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def get_execution(bench):
    """Client and servers on one core: what waking another core costs depends on where the scheduler
    puts them, and would be counted on one side only by chance."""
    everywhere = os.sched_getaffinity(0)
    one = {min(everywhere)}
    service = bench.service()
    try:
        path = f"/v1/executions/{service.provision()}"
        _, answer = service.connection.request("GET", path)
        with subprocess.Popen([bench.constant, str(len(answer))], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as floor:
            constant = Connection(("127.0.0.1", int(floor.stdout.readline())))
            constant.connect()
            for process in (os.getpid(), service.pid, floor.pid):
                pin(process, one)
            figures = interleaved(bench.samples,
                                  lambda: cost(service.connection, service.pid, path),
                                  lambda: cost(constant, floor.pid, path))
            constant.close()
            floor.stdin.close()
    finally:
        pin(os.getpid(), everywhere)
        service.stop()
    return [compared("get-execution", "GET /v1/executions/{id}, CPU time of a request",
                     "libmicrohttpd with a constant of the same size", "µs", figures, RATIO_BAR)]
