"""Requests over kept connections, made again where that changes nothing."""
import http.client
import json
import random
import secrets
import socket
import threading
import time
import urllib.parse
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from .abort import Abort
from .errors import PROTOCOL, ExecutionHostError, error_of, unreachable

Body = Union[str, bytes, None]
# A stream says something every 15 s; a call that waits may be silent for hours.
STREAM_TIMEOUT = 60.0
MAX_IDLE = 16


class Retry(NamedTuple):
    """`budget` seconds are what a call goes on trying once it has begun to fail (0: never again), with
    pauses from `min_delay` on, each twice as long as the last, up to `max_delay`."""

    budget: float = 60.0
    min_delay: float = 0.1
    max_delay: float = 5.0


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, Any] = {}
    body: Body = None
    headers: Mapping[str, Optional[str]] = {}
    last_try: Optional[Abort] = None
    """Once it is aborted the present try may end, but no other begins."""


def random_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(12)}"


def id_of(request: Optional[Mapping[str, Any]], field: str, prefix: str) -> str:
    """The caller's own, whatever it is: the service says what is wrong with it. Else a new one."""
    given = (request or {}).get(field)
    return random_id(prefix) if given is None else given


class Retries:
    """Decides whether to try again, and waits before. One for each call."""

    def __init__(self, options: Retry) -> None:
        self.options = options
        self.first_failure = 0.0
        self.failures = 0

    def reset(self) -> None:
        """What failed is over and forgotten: progress was made."""
        self.failures = 0

    def next(self, error: ExecutionHostError, started: float, last_try: Optional[Abort]) -> None:
        """Raises the error where there is no further try."""
        now = time.monotonic()
        # A call that had waited long for its answer begins to fail only now.
        if self.failures == 0 or now - started > self.options.budget:
            self.first_failure = now
            self.failures = 0
        longest = min(self.options.max_delay, self.options.min_delay * 2 ** min(self.failures, 20))
        delay = max(longest * random.uniform(0.5, 1), error.retry_after)
        over = now + delay - self.first_failure > self.options.budget
        if not error.retryable or over or (last_try and last_try.aborted):
            raise error
        self.failures += 1
        time.sleep(delay)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float] = None) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def _socket_of(connection: http.client.HTTPConnection) -> socket.socket:
    if connection.sock is None:
        raise OSError("not connected")
    return connection.sock


def _is_torn(response: http.client.HTTPResponse) -> bool:
    """Whether it was cut within its headers, which http.client takes for their end: the service frames
    every body."""
    return response.length is None and not response.chunked


def _watch(sock: socket.socket) -> None:
    """Has the kernel find out that a silent peer is gone."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Answer:
    """An open answer of a success: read it, or close it."""

    def __init__(self, transport: "Transport", connection: http.client.HTTPConnection,
                 response: http.client.HTTPResponse, what: str) -> None:
        self._transport = transport
        self._connection = connection
        self._response = response
        self._what = what

    def read(self) -> bytes:
        try:
            data = self._response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise unreachable(self._what) from error
        if self._response.will_close:
            self.close()
        else:
            self._transport._give(self._connection)
        return data

    def lines(self) -> Iterator[bytes]:
        """Each whole line; what is behind the last end of a line was cut, and comes again."""
        try:
            while True:
                try:
                    line = self._response.readline()
                except (OSError, ValueError, http.client.HTTPException) as error:
                    raise unreachable(self._what) from error
                if not line.endswith(b"\n"):
                    return
                yield line
        finally:
            self.close()

    def close(self) -> None:
        self._connection.close()


class Transport:
    """Any thread may call. `base_url` is http, https or `unix:PATH`."""

    def __init__(self, base_url: str, token: Optional[str] = None, retry: Retry = Retry()) -> None:
        self._url = urllib.parse.urlsplit(base_url.rstrip("/"))
        if self._url.scheme not in ("http", "https", "unix"):
            raise ValueError(f"{base_url} is neither http, https nor unix:PATH")
        self._base = base_url
        self._token = token
        self._retry = retry
        self._idle: List[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def retries(self) -> Retries:
        return Retries(self._retry)

    def json(self, request: Request) -> Any:
        return json.loads(self.content(request))

    def content(self, request: Request) -> bytes:
        """The whole body of the answer that counts, after as many tries as it takes."""
        retries = self.retries()
        while True:
            started = time.monotonic()
            try:
                return self.once(request).read()
            except ExecutionHostError as error:
                retries.next(error, started, request.last_try)

    def once(self, request: Request, timeout: Optional[float] = None) -> Answer:
        """One try. A kept connection that was closed meanwhile does not count as one."""
        connection, fresh = self._take()
        try:
            return self._exchange(connection, request, timeout)
        except ExecutionHostError as error:
            if fresh or error.status:
                raise
        return self._exchange(self._open(), request, timeout)

    def close(self) -> None:
        """Closes what is kept open; the object can be used further."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _exchange(self, connection: http.client.HTTPConnection, request: Request,
                  timeout: Optional[float]) -> Answer:
        what = f"{request.method} {request.path} got no answer from {self._base}."
        target, headers, body = self._parts(request)
        try:
            if connection.sock is None:
                connection.connect()
                _watch(_socket_of(connection))
            _socket_of(connection).settimeout(timeout)
            try:
                connection.request(request.method, target, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the rest was read; the answer may be there
            response = connection.getresponse()
            if _is_torn(response):
                raise http.client.IncompleteRead(b"")
            answer = Answer(self, connection, response, what)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise unreachable(what) from error
        if response.status < 300:
            return answer
        failure = error_of(response.status, answer.read())
        after = response.headers.get("Retry-After", "0")
        failure.retry_after = float(after) if after.isdigit() else 0.0
        raise failure

    def _parts(self, request: Request) -> Tuple[str, Dict[str, str], Optional[bytes]]:
        query = {name: _text(value) for name, value in request.query.items() if value is not None}
        prefix = "" if self._url.scheme == "unix" else self._url.path
        target = prefix + request.path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = {name: value for name, value in request.headers.items() if value is not None}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        body = request.body.encode() if isinstance(request.body, str) else request.body
        return target, headers, body

    def _open(self) -> http.client.HTTPConnection:
        if self._url.scheme == "unix":
            return _UnixConnection(self._url.path)
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else \
            http.client.HTTPConnection
        if self._url.hostname is None:
            raise ExecutionHostError(PROTOCOL, f"{self._base} names no host.")
        return kind(self._url.hostname, self._url.port)

    def _take(self) -> Tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), False
        return self._open(), True

    def _give(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
