"""The tenant's events through cuts and kills."""
import random
import threading
import time

from lib import streams
from mixed_output import check
from reader import dechunk, request, split_head

COMMANDS = 40


class Follower(threading.Thread):
    """Follows all changes, cut after some bytes each time, until it is told to stop."""

    def __init__(self, context):
        super().__init__()
        self.context = context
        self.seen = []
        self.wrong = None
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.is_set() and not self.wrong:
            last = self.seen[-1]["seq"] if self.seen else 0
            try:
                with request(self.context.service.address, f"/v1/events?after={last}",
                             {}) as connection:
                    connection.settimeout(0.5)
                    self.take(receive_some(connection, random.randrange(1, 6000)))
            except OSError:
                time.sleep(0.05)  # the service is away

    def take(self, data):
        head = split_head(data)
        if head is None:
            return
        body, _ended = dechunk(head[2])
        text = body[:body.rfind(b"\n\n") + 2].decode() if b"\n\n" in body else ""
        for event in streams.parse_sse(text):
            if event["seq"] != (self.seen[-1]["seq"] if self.seen else 0) + 1:
                self.wrong = f"not the next: {event}"
            self.seen.append(event)


def receive_some(connection, limit):
    data = b""
    try:
        while len(data) < limit:
            piece = connection.recv(min(4096, limit - len(data)))
            if not piece:
                break
            data += piece
    except TimeoutError:
        pass
    return data


def run(context):
    execution = context.provision()
    follower = Follower(context)
    follower.start()
    try:
        for number in range(COMMANDS):
            context.run_command(execution, "true", commandId=f"c{number}")
            if number % 10 == 9:
                context.restart(kill=number % 20 == 9)
        everything = context.expect(200, "GET", "/v1/events?follow=false").events()
        deadline = time.monotonic() + 20
        while len(follower.seen) < len(everything) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        follower.stopped.set()
        follower.join()
    check(not follower.wrong, follower.wrong)
    check([e["seq"] for e in everything] == list(range(1, len(everything) + 1)), "numbers")
    check(follower.seen == everything, f"saw {len(follower.seen)} of {len(everything)}")
    for number in range(COMMANDS):
        states = [e["state"] for e in everything if e.get("commandId") == f"c{number}"]
        check(states == ["queued", "running", "exited"], f"c{number}: {states}")
    context.say(f"{len(everything)} events")
