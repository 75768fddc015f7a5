"""One HTTP request on a connection of its own, and what came back."""
import http.client
import json
import re
import socket
import time

from . import streams


class Response:
    def __init__(self, status, headers, body, elapsed_ms):
        self.status = status
        self.headers = headers
        self.body = body
        self.elapsed_ms = elapsed_ms

    def header(self, name):
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return found[0] if found else None

    def media_type(self):
        value = self.header("Content-Type")
        return value.split(";")[0].strip().lower() if value else None

    def json(self):
        return json.loads(self.body.decode("utf-8"), object_pairs_hook=unique_keys)

    def events(self):
        """Of a stream: its events in order."""
        return streams.parse(self.media_type(), self.body.decode("utf-8"))

    def brief(self):
        text = self.body[:600].decode("utf-8", "replace")
        return f"{self.status} {self.media_type()} {text}"


def unique_keys(pairs):
    result = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate key {key!r} in an answer")
        result[key] = value
    return result


def call(address, method, target, headers=None, body=None, timeout=120):
    """`address` is (host, port) or the path of a unix socket."""
    started = time.monotonic()
    connection = connect(address, timeout)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True,
                              skip_host=any(k.lower() == "host" for k in headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        lower = {name.lower() for name in headers or {}}
        if body is not None and "content-length" not in lower:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        try:
            if body:
                connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the rest was read; the answer is there to be read
        answer = connection.getresponse()
        data = answer.read()
        elapsed = (time.monotonic() - started) * 1000
        return Response(answer.status, answer.getheaders(), data, elapsed)
    finally:
        connection.close()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connect(address, timeout):
    if isinstance(address, str):
        return UnixConnection(address, timeout)
    return http.client.HTTPConnection(address[0], address[1], timeout=timeout)


STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")


def raw(address, data, timeout=10):
    """Sends bytes as they are; returns the status of the first answer, all bytes, and whether
    the service closed the connection."""
    with socket.create_connection(address, timeout=timeout) as connection:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        received = b""
        closed = False
        connection.settimeout(2)
        while True:
            try:
                piece = connection.recv(65536)
            except socket.timeout:
                break
            except ConnectionResetError:
                closed = True
                break
            if not piece:
                closed = True
                break
            received += piece
    found = STATUS_LINE.match(received)
    return int(found.group(1)) if found else None, received, closed
