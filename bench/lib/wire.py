"""HTTP/1.1 on one kept connection, the same code for the service and for the engine, so that what
the client costs is the same on both sides."""
import json
import socket


class WireError(Exception):
    """The other side closed early, sent no HTTP, or answered with an unexpected status."""


class Connection:
    """`address` is a path (unix socket) or (host, port). Connects at the first request, and again
    where the other side has closed meanwhile. Not for several threads at once."""

    def __init__(self, address, timeout=300):
        self.address = address
        self.timeout = timeout
        self.socket = None
        self.data = b""

    def connect(self):
        self.close()
        if isinstance(self.address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(self.timeout)
        self.socket.connect(self.address)

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None
        self.data = b""

    def send(self, method, path, body=None, extra=""):
        payload = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{extra}"
        if body is not None:
            head += "Content-Type: application/json\r\n"
        if method != "GET":
            head += f"Content-Length: {len(payload)}\r\n"
        self.socket.sendall(head.encode() + b"\r\n" + payload)

    def more(self):
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise WireError("the connection was closed early")
        self.data += piece

    def read_head(self):
        """The status and the headers, their names in small letters."""
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(first.split(" ")[1]), headers

    def take(self, size):
        while len(self.data) < size:
            self.more()
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def take_line(self):
        while b"\r\n" not in self.data:
            self.more()
        line, self.data = self.data.split(b"\r\n", 1)
        return line

    def read_body(self, status, headers):
        if status in (204, 304):
            return b""
        if headers.get("transfer-encoding") != "chunked":
            return self.take(int(headers.get("content-length", 0)))
        body = b""
        while size := int(self.take_line().split(b";")[0], 16):
            body += self.take(size)
            self.take_line()
        self.take_line()
        return body

    def request(self, method, path, body=None):
        """(status, body). Blocks until the whole answer is there."""
        if self.socket is None:
            self.connect()
        try:
            self.send(method, path, body)
            status, headers = self.read_head()
        except (WireError, OSError):
            if method != "GET":
                raise
            self.connect()
            self.send(method, path, body)
            status, headers = self.read_head()
        answer = self.read_body(status, headers)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, answer

    def call(self, method, path, body=None, expect=(200, 201, 204)):
        """The decoded answer; WireError on another status."""
        status, answer = self.request(method, path, body)
        if status not in expect:
            raise WireError(f"{method} {path}: {status} {answer[:500].decode('utf-8', 'replace')}")
        return json.loads(answer) if answer else None


def read_upgraded(address, path, body):
    """Takes a connection over as the engine's attach calls do and reads it to its end. Returns how
    many bytes came."""
    connection = Connection(address)
    connection.connect()
    try:
        connection.send("POST", path, body, "Connection: Upgrade\r\nUpgrade: tcp\r\n")
        status, _ = connection.read_head()
        if status not in (101, 200):
            raise WireError(f"POST {path}: {status}")
        total = len(connection.data)
        while piece := connection.socket.recv(1 << 18):
            total += len(piece)
        return total
    finally:
        connection.close()
