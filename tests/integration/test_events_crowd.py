"""Many followers at once."""
import hashlib
import selectors
import time

from lib import streams
from mixed_output import MIB, OUTPUT, ROOMY, check, mixed
from reader import dechunk, receive, request, split_head

LEAN = True
FOLLOWERS = 1000
SLOW = 100
LINES = ("read go; i=0; while [ $i -lt 64 ]; do printf '%01023d\\n' $i; i=$((i+1)); done")


class Crowd:
    """Many followers of one path, read by one thread."""

    def __init__(self, address, path, count, receive_buffer=None):
        self.followers = []
        for _ in range(count):
            connection = request(address, path, {}, receive_buffer)
            self.followers.append((connection, bytearray()))

    def read(self, until, seconds):
        """Reads all of them until `until(data)` holds for each, or they have closed."""
        selector = selectors.DefaultSelector()
        for follower in self.followers:
            if not until(follower[1]):
                selector.register(follower[0], selectors.EVENT_READ, follower)
        deadline = time.monotonic() + seconds
        while selector.get_map():
            check(time.monotonic() < deadline, f"{len(selector.get_map())} are not complete")
            for key, _ in selector.select(1):
                connection, data = key.data
                piece = connection.recv(65536)
                data += piece
                if not piece or until(data):
                    selector.unregister(connection)
        selector.close()

    def close(self):
        for connection, _data in self.followers:
            connection.close()


class Memory:
    """What the service has grown by, for each of so many followers."""

    def __init__(self, context, count):
        self.context = context
        self.count = count
        self.before = context.service.resident_bytes()

    def each(self):
        """KiB."""
        return (self.context.service.resident_bytes() - self.before) / self.count / 1024


def whole_body(data):
    status, _type, rest = split_head(bytes(data))
    body, ended = dechunk(rest)
    check(status == 200 and ended, f"status {status}, ended {ended}")
    return body


def thousand_followers(context):
    path = context.start_command(context.provision(ROOMY), LINES, stdinOpen=True)
    context.expect(200, "GET", f"{path}/events?follow=false")
    memory = Memory(context, FOLLOWERS)
    crowd = Crowd(context.service.address, f"{path}/events", FOLLOWERS)
    crowd.read(lambda data: b'"started"' in data, 60)
    waiting = memory.each()
    started = time.monotonic()
    context.expect(204, "POST", f"{path}/stdin?eof=true", body=b"go\n",
                   headers={"Content-Type": "application/octet-stream"})
    crowd.read(lambda data: data.endswith(b"\r\n0\r\n\r\n"), 120)
    took = time.monotonic() - started
    after = memory.each()
    bodies = {hashlib.sha256(whole_body(data)).hexdigest() for _, data in crowd.followers}
    crowd.close()
    check(len(bodies) == 1, f"{len(bodies)} different transcripts")
    seen = streams.transcript(context.expect(200, "GET", f"{path}/events").events())
    check(seen["stdout"] == "".join(f"{i:01023d}\n" for i in range(64)), "not what was written")
    limit = 200 if context.has_sanitizer() else 40
    context.say(f"{FOLLOWERS} followers: {waiting:.1f} KiB each while they wait, {after:.1f} KiB "
                f"afterwards; complete after {took:.1f} s")
    check(waiting < limit and after < limit, f"more than {limit} KiB each")


def slow_readers(context):
    """They take nothing of 10 MiB for a while; one of them then takes all of it."""
    path, _digest = mixed(context)
    memory = Memory(context, SLOW)
    crowd = Crowd(context.service.address, f"{path}/events", SLOW, receive_buffer=65536)
    time.sleep(3)
    each = memory.each()
    data, _closed = receive(crowd.followers[0][0], 10 ** 9)
    status, media_type, rest = split_head(data)
    body, ended = dechunk(rest)
    crowd.close()
    check(status == 200 and ended, "the slow reader was cut")
    seen = streams.transcript(streams.parse(media_type, body.decode()))
    check(len(seen["stdout"]) == OUTPUT, f"{len(seen['stdout'])} bytes")
    context.say(f"{SLOW} slow readers: {each:.1f} KiB each")
    check(each < (MIB if context.has_sanitizer() else 200 * 1024) / 1024, "too much memory each")


def run(context):
    slow_readers(context)
    thousand_followers(context)
