"""Many at once: commands, streams, records of what is over, requests."""
import pathlib
import resource
import socket
import sqlite3
import threading
import time

from lib.sampling import absolute, compared, interleaved, timed
from lib.service import Service
from lib.wire import Connection, WireError

BUSY = 200
BUSY_ROUNDS = 3
BUSY_BYTES = 256 << 10
BUSY_BAR = 1.3
STREAMS = 10000
STREAM_KIB = 40
STREAM_GETS = 500
STREAM_P99_MS = 20
DESCRIPTORS_BESIDE = 200
ENDED = 100000
ENDED_FEW = 100
ENDED_BAR = 2
REQUESTS_FIRST = 10000
REQUESTS = 1000000
REQUESTS_MIB = 2
PIPELINED = 100
CLIENTS = 4


def all_at_once(count, action):
    """Calls action(0 … count - 1), each on a thread of its own; raises what the first of them did."""
    problems = []

    def one(number):
        try:
            action(number)
        except (WireError, OSError) as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def busy_seconds():
    """What all cores have worked so far, and how many they are."""
    lines = pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()
    fields = [int(field) for field in lines[0].split()[1:]]
    cores = sum(line.startswith("cpu") for line in lines) - 1
    return (sum(fields[:3]) + sum(fields[5:8])) / 100, cores


def busy(bench):
    """native-busy: wall time over the machine's own work spread over its cores."""
    service = bench.native_service()
    small = {"cpus": 1, "memoryBytes": 32 << 20, "diskBytes": 1 << 20, "pids": 8}
    script = f"head -c {BUSY_BYTES} /dev/zero | tr '\\0' x"

    def run(name):
        connection = Connection(service.address)
        try:
            ended = connection.call("POST", f"/v1/executions/{name}/commands",
                                    {"command": "sh", "args": ["-c", script]})
        finally:
            connection.close()
        if (ended["exitCode"], ended["stdoutBytes"], ended["truncated"]) != (0, BUSY_BYTES, False):
            raise WireError(f"output was lost: {str(ended)[-500:]}")

    ratios = []
    try:
        names = [service.provision(**small) for _ in range(BUSY)]
        for _ in range(BUSY_ROUNDS):
            before, cores = busy_seconds()
            spent = timed(all_at_once, BUSY, lambda number: run(names[number]))[0] / 1000
            ratios.append(spent / ((busy_seconds()[0] - before) / cores))
    finally:
        service.stop()
    return [absolute("native-busy", f"{BUSY} commands at once with {BUSY_BYTES >> 10} KiB of output "
                     "each: wall time by CPU time and cores", "×", ratios, BUSY_BAR)]


def streams(bench):
    """event-streams-memory, event-streams-get"""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < STREAMS + DESCRIPTORS_BESIDE:
        raise WireError(f"{hard} descriptors are too few for {STREAMS} streams")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    service = bench.native_service()
    head = b"GET /v1/events?after=latest HTTP/1.1\r\nHost: localhost\r\n\r\n"
    held = []
    try:
        path = f"/v1/executions/{service.provision()}"
        service.call("GET", path)
        before = service.memory_kib("VmRSS")
        for _ in range(STREAMS):
            stream = socket.create_connection(service.address, timeout=60)
            held.append(stream)
            stream.sendall(head)
            if not stream.recv(4096).startswith(b"HTTP/1.1 200"):
                raise WireError("a stream of events was refused")
        grown = (service.memory_kib("VmRSS") - before) / STREAMS
        spent = sorted(timed(service.call, "GET", path)[0] for _ in range(STREAM_GETS))
    finally:
        for stream in held:
            stream.close()
        service.stop()
    return [
        absolute("event-streams-memory", f"{STREAMS} idle streams of events: memory of each", "KiB",
                 [grown], STREAM_KIB),
        absolute("event-streams-get", f"GET beside them, 99th of {STREAM_GETS} in a hundred", "ms",
                 [spent[STREAM_GETS * 99 // 100 - 1]], STREAM_P99_MS),
    ]


def fill_records(path, count):
    """Copies the one record that is there; the events of copies would say nothing."""
    database = sqlite3.connect(path)
    trigger = database.execute(
        "SELECT sql FROM sqlite_master WHERE name = 'executions_inserted'").fetchone()[0]
    columns = [row[1] for row in database.execute("PRAGMA table_info(executions)")]
    values = ["'ended-' || n" if name == "execution_id" else name for name in columns[1:]]
    with database:
        database.execute("DROP TRIGGER executions_inserted")
        database.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers"
            f" WHERE n < {count}) INSERT INTO executions ({', '.join(columns[1:])})"
            f" SELECT {', '.join(values)} FROM numbers, executions WHERE row = 1")
        database.execute(trigger)
    database.close()


def service_with_records(bench, count):
    """(a service that remembers so many ended executions, how to start it again)"""
    service = bench.native_service()
    service.terminate(service.provision())
    service.stop()
    directory = pathlib.Path(service.log).parent
    fill_records(directory / "data/exechost.db", count)

    def start():
        return Service(bench.binary, service.image, directory,
                       {"defaultHost": "native", "docker": {"socket": f"{directory}/none"}})
    return start


def records(bench):
    """ended-list, ended-start"""
    many, few = (service_with_records(bench, count) for count in (ENDED, ENDED_FEW))

    def start(begin):
        spent, service = timed(begin)
        service.stop()
        return spent

    starts = interleaved(bench.samples, lambda: start(many), lambda: start(few), warm_up=1)
    services = [many(), few()]
    try:
        lists = interleaved(bench.samples, *(
            lambda service=service: timed(service.call, "GET", "/v1/executions?limit=50")[0]
            for service in services))
    finally:
        for service in services:
            service.stop()
    return [
        compared("ended-list", f"a page of the list with {ENDED} ended executions",
                 f"with {ENDED_FEW}", "ms", lists, ENDED_BAR),
        compared("ended-start", f"start of the service with {ENDED} ended executions",
                 f"with {ENDED_FEW}", "ms", starts, ENDED_BAR),
    ]


def ask_many(service, path, count):
    """Many requests behind each other on each of a few connections."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def client(_):
        connection = Connection(service.address)
        connection.connect()
        try:
            for _ in range(count // CLIENTS // PIPELINED):
                connection.socket.sendall(request * PIPELINED)
                for _ in range(PIPELINED):
                    status, headers = connection.read_head()
                    connection.read_body(status, headers)
                    if status != 200:
                        raise WireError(f"GET {path}: {status}")
        finally:
            connection.close()

    all_at_once(CLIENTS, client)


def requests(bench):
    """requests-memory"""
    service = bench.native_service()
    try:
        path = f"/v1/executions/{service.provision()}"
        ask_many(service, path, REQUESTS_FIRST)
        time.sleep(1)
        before = service.memory_kib("VmRSS")
        ask_many(service, path, REQUESTS - REQUESTS_FIRST)
        time.sleep(1)
        grown = (service.memory_kib("VmRSS") - before) / 1024
    finally:
        service.stop()
    return [absolute("requests-memory", f"growth of memory from {REQUESTS_FIRST} to {REQUESTS} "
                     "requests", "MiB", [grown], REQUESTS_MIB)]
