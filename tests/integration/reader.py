"""A reader of a stream of events on a bare socket, which is cut wherever a test wants it."""
import hashlib
import random
import socket
import struct

from lib import streams

RESET = struct.pack("ii", 1, 0)


class Cut(Exception):
    """The stream ended before its last chunk."""


def request(address, path, headers, receive_buffer=None):
    """A connection on which the request was sent."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(60)
    connection.connect(address)
    lines = [f"GET {path} HTTP/1.1", f"Host: {address[0]}:{address[1]}",
             "Connection: close",
             *(f"{name}: {value}" for name, value in headers.items())]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return connection


def split_head(data):
    """(status, media type, rest), or None while the head is not whole."""
    head, separator, rest = data.partition(b"\r\n\r\n")
    if not separator:
        return None
    lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), fields.get("content-type"), rest


def dechunk(data):
    """(what was sent of the body so far, whether its end was): cut anywhere."""
    body, at = [], 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return b"".join(body), False
        size = int(data[at:end], 16)
        if size == 0:
            return b"".join(body), data[end + 2:end + 4] == b"\r\n"
        body.append(data[end + 2:end + 2 + size])
        at = end + 2 + size + 2


def receive(connection, limit):
    """Up to `limit` bytes; (bytes, whether the peer closed)."""
    pieces, left = [], limit
    while left > 0:
        try:
            piece = connection.recv(min(left, 65536))
        except ConnectionResetError:
            return b"".join(pieces), True
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces), False


class Transcript:
    """What a reader of one command's events has, across all cuts."""

    def __init__(self, path):
        self.path = path
        self.last = -1
        self.done = False
        self.cuts = 0
        self.sizes = {"stdout": 0, "stderr": 0}
        self.digests = {"stdout": hashlib.sha256(), "stderr": hashlib.sha256()}
        self.exit = None

    def take(self, event):
        if event["type"] == "ping":
            return
        if event["seq"] != self.last + 1 or self.done:
            raise AssertionError(f"seq {event['seq']} after {self.last}, done {self.done}")
        self.last = event["seq"]
        kind = event["type"]
        if kind in self.sizes:
            if event["offset"] != self.sizes[kind]:
                raise AssertionError(f"offset {event['offset']} where {self.sizes[kind]} are known")
            data = streams.data_of(event)
            self.sizes[kind] += len(data)
            self.digests[kind].update(data)
        elif kind == "exit":
            self.exit = event["command"]
            self.done = True

    def place(self, sse):
        """Where to go on, asked for in either way."""
        if self.last < 0:
            return "", {}
        by_header = sse and random.random() < 0.5
        return ("", {"Last-Event-ID": str(self.last)}) if by_header else \
            (f"?after={self.last}", {})

    def attempt(self, address, limit):
        """Reads up to `limit` bytes of a stream behind what is known, then cuts it by a reset."""
        sse = random.random() < 0.5
        query, headers = self.place(sse)
        connection = request(address, f"{self.path}/events{query}",
                             {**headers, "Accept": streams.SSE if sse else streams.NDJSON})
        with connection:
            data, closed = receive(connection, limit)
            if not closed:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.cuts += 1
        head = split_head(data)
        if head is None:
            return
        status, media_type, rest = head
        if status != 200:
            raise AssertionError(f"status {status}: {rest[:300]!r}")
        body, _ended = dechunk(rest)
        for event in streams.parse(media_type, whole_text(media_type, body)):
            self.take(event)

    def digest(self, stream):
        return self.digests[stream].hexdigest()


def whole_text(media_type, body):
    """The whole events: what was cut may end within a character."""
    end = b"\n\n" if media_type == streams.SSE else b"\n"
    return body[:body.rfind(end) + len(end)].decode("utf-8") if end in body else ""
