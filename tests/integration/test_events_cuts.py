"""Readers of events that are cut, again and again, wherever they are."""
import hashlib
import json
import random
import socket
import threading

from mixed_output import OUTPUT, ROOMY, check, mixed
from reader import Transcript

CUTS = 1500
RESTART_EVERY = 150
EVENTS = 200000  # bytes of a stream that hold an event, however large it is
LIVE = ("i=0; while [ $i -lt 3000 ]; do echo line $i; echo e$i >&2; i=$((i+1)); "
        "[ $((i % 100)) = 0 ] && sleep 0.05; done; true")


def random_limits(*most):
    """Of each size in turn."""
    while True:
        for limit in most:
            yield random.randrange(1, limit)


def read_cut(context, path, limits, between=lambda: None):
    """Reads a transcript, cut after each of `limits` bytes in turn, until it is whole. An event may
    be larger than all of them: one attempt in a while has room for any."""
    transcript = Transcript(path)
    in_vain = 0
    while not transcript.done:
        last = transcript.last
        transcript.attempt(context.service.address, EVENTS if in_vain > 20 else next(limits))
        in_vain = in_vain + 1 if transcript.last == last else 0
        between()
    return transcript


class Restarts:
    """Stops or kills the service every so many cuts."""

    def __init__(self, context):
        self.context = context
        self.cuts = self.count = 0

    def __call__(self):
        self.cuts += 1
        if self.cuts % RESTART_EVERY == 0:
            self.count += 1
            self.context.restart(kill=self.count % 2 == 0)


def cut_and_resumed(context):
    path, digest = mixed(context)
    restarts = Restarts(context)
    while restarts.cuts < CUTS:
        transcript = read_cut(context, path, random_limits(500, 5000, 50000, 200000), restarts)
        check(transcript.sizes["stdout"] == OUTPUT, f"{transcript.sizes['stdout']} bytes")
        check(transcript.digest("stdout") == digest, "other bytes than were written")
        check(transcript.exit["exitCode"] == 0, f"exit {transcript.exit}")
    context.say(f"10 MiB: {restarts.cuts} cuts, {restarts.count} restarts")


def cut_while_written(context):
    path = context.start_command(context.provision(ROOMY), LIVE)
    transcript = read_cut(context, path, random_limits(8000))
    wanted = "".join(f"line {i}\n" for i in range(3000)).encode()
    check(transcript.digest("stdout") == hashlib.sha256(wanted).hexdigest(), "stdout differs")
    check(transcript.sizes["stderr"] == sum(len(f"e{i}\n") for i in range(3000)), "stderr differs")
    context.say(f"live: {transcript.cuts} cuts")


def post_cut(context):
    """A client that goes away while its POST streams aborts nothing."""
    execution = context.provision()
    body = json.dumps({"commandId": "left", "command": "/bin/sh",
                       "args": ["-c", "echo begun; sleep 1; echo done"]}).encode()
    address = context.service.address
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(f"POST {execution}/commands HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
                           "Content-Type: application/json\r\nAccept: text/event-stream\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        data = b""
        while b"begun" not in data:
            piece = connection.recv(4096)
            check(piece, f"closed after {data!r}")
            data += piece
    transcript = Transcript(f"{execution}/commands/left")
    transcript.attempt(address, 10 ** 9)
    check(transcript.done and transcript.exit["exitCode"] == 0, f"exit {transcript.exit}")
    check(transcript.sizes["stdout"] == len("begun\ndone\n"), "output is missing")


def killed_while_read(context):
    """What was received is the start of what is on record; one exit comes behind it."""
    execution = context.provision(ROOMY)
    path = context.start_command(execution, "i=0; while :; do echo line $i; i=$((i+1)); done")
    transcript = Transcript(path)
    while transcript.sizes["stdout"] < 20000:
        transcript.attempt(context.service.address, EVENTS)
    threading.Timer(random.uniform(0.05, 0.3), context.service.process.kill).start()
    transcript.attempt(context.service.address, 10 ** 9)
    received = transcript.last + 1
    check(not transcript.done, "an exit came while the command ran")
    context.restart(kill=True)
    if context.host != "docker":
        context.expect(204, "DELETE", execution)  # it has outlived the service
    transcript.attempt(context.service.address, 10 ** 9)
    check(transcript.done, "no exit after the restart")
    reason = transcript.exit["termination"]["reason"]
    wanted = "host-lost" if context.host == "docker" else "terminated"
    check(reason == wanted, f"reason {reason}")
    raw = context.expect(200, "GET", f"{path}/stdout").body
    check(hashlib.sha256(raw).hexdigest() == transcript.digest("stdout"), "other bytes")
    context.say(f"killed: {received} events before, {transcript.last + 1} in all")


def run(context):
    cut_and_resumed(context)
    cut_while_written(context)
    post_cut(context)
    for _ in range(3):
        killed_while_read(context)
