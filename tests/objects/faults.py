"""A proxy between the service and an object store that counts what passes and does harm on demand.

    with Proxy(store) as proxy:
        proxy.fault("part-blob", Answer(503), times=2)
        ...
        proxy.count("put-blob")

What is signed covers the Host header, which is passed on as it came. A request's kind is its
operation and its object: `put`, `get`, `head`, `delete`, `create` (a multipart upload), `part`,
`complete`, `abort`, `parts` (the list of them), `uploads` (that list), `list`, then `-blob`, `-manifest`,
`-bucket` or `-other`. Faults are found by shell patterns of kinds, the oldest first.
"""
import asyncio
import datetime
import email.utils
import fnmatch
import re
import socket
import struct
import threading
import time
import urllib.parse
import xml.sax.saxutils

PIECE = 1 << 18
STEPS_PER_SECOND = 20


class Request:
    """One that came; `status` is None until an answer has begun, 0 where there was none."""

    def __init__(self, head):
        lines = head[:-4].decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.headers = {name.lower(): value.strip()
                        for name, _, value in (line.partition(":") for line in lines[1:])}
        self.head = head
        self.path, _, query = self.target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.length = int(self.headers.get("content-length", "0"))
        self.kind = f"{self.operation()}-{self.object()}"
        self.at = time.monotonic()
        self.status = None
        self.taken = 0
        self.given = 0
        self.over = False  # nothing of it is on its way to the store any more

    def operation(self):
        if "uploadId" in self.query:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort", "GET": "parts"}[self.method]
        if "uploads" in self.query:
            return "create" if self.method == "POST" else "uploads"
        if self.method == "GET" and self.object() == "bucket":
            return "list"
        return self.method.lower()

    def object(self):
        if "/blobs/" in self.path:
            return "blob"
        if self.path.endswith("/manifest.json"):
            return "manifest"
        if self.path.count("/") < 2 or not self.path.split("/", 2)[2]:
            return "bucket"
        return "other"

    def __repr__(self):
        return f"{self.method} {self.target} {self.status} ({self.taken} in, {self.given} out)"


class Fault:
    """What happens to a request. These do nothing; kinds of faults say something else."""

    answer = None     # (head and body) in the store's place
    reset_at = None   # the connection is reset after that many bytes of the request's body
    lose = False      # the store answers, and the connection is reset in the answer's place
    cut_at = None     # the answer ends after that many bytes of its body
    cut_hard = False  # by a reset
    alter_at = None   # that byte of the answer's body is another one
    spoil_at = None   # that byte of the request's body is another one
    rate = None       # bytes a second, of both bodies

    async def before(self):
        """Before the request goes to the store."""

    async def after(self):
        """Between the store's answer and the client's."""

    def let_go(self):
        """The proxy closes."""


class Answer(Fault):
    """An answer of S3's form in the store's place."""

    def __init__(self, status, code="InternalError", headers=""):
        body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
                f"<Message>made up</Message></Error>").encode()
        self.status = status
        self.answer = (f"HTTP/1.1 {status} Made Up\r\nContent-Type: application/xml\r\n{headers}"
                       f"Content-Length: {len(body)}\r\n", body)


class Redirect(Answer):
    def __init__(self, location, status=307):
        super().__init__(status, "TemporaryRedirect", f"Location: {location}\r\n")


class Skewed(Answer):
    def __init__(self):
        super().__init__(403, "RequestTimeTooSkewed")


class Reset(Fault):
    def __init__(self, after=0):
        self.reset_at = after


class Lose(Fault):
    lose = True


class Cut(Fault):
    def __init__(self, at, hard=False):
        self.cut_at = at
        self.cut_hard = hard


class Alter(Fault):
    def __init__(self, at):
        self.alter_at = at


class Spoil(Fault):
    def __init__(self, at):
        self.spoil_at = at


class Slow(Fault):
    def __init__(self, rate):
        self.rate = rate


class Hold(Fault):
    """Keeps a request before the store sees it, or its answer where `after`, until `release`."""

    def __init__(self, after=False, then=None):
        self.is_after = after
        self.reached = threading.Event()
        self.released = threading.Event()
        if then:
            self.answer = then.answer
            self.status = then.status

    async def wait(self):
        self.reached.set()
        while not self.released.is_set():
            await asyncio.sleep(0.01)

    async def before(self):
        if not self.is_after:
            await self.wait()

    async def after(self):
        if self.is_after:
            await self.wait()

    def await_reached(self, seconds=120):
        if not self.reached.wait(seconds):
            raise TimeoutError("the request that is to be held did not come")

    def release(self):
        self.released.set()

    def let_go(self):
        self.release()


class Rule:
    def __init__(self, pattern, fault, times, skip):
        self.pattern = pattern
        self.fault = fault
        self.left = times
        self.skip = skip
        self.hits = 0

    def takes(self, request):
        if self.left == 0 or not fnmatch.fnmatch(request.kind, self.pattern):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
        self.hits += 1
        return True


class Proxy:
    """Listens on a free port of loopback; any thread may call."""

    def __init__(self, store, tls=None):
        """`store` as tests/objects/servers describes it; `tls` an ssl.SSLContext or None."""
        upstream = urllib.parse.urlsplit(store["endpoint"])
        self.upstream = (upstream.hostname, upstream.port)
        self.tls = tls
        self.lock = threading.Lock()
        self.rules = []
        self.seen = []
        self.older = {}
        self.loop = asyncio.new_event_loop()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        port = self.listener.getsockname()[1]
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self.store = {**store, "endpoint": self.endpoint}
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def fault(self, pattern, fault, times=None, skip=0):
        """Does `fault` to requests of these kinds; the rule counts them in `hits`."""
        rule = Rule(pattern, fault, times, skip)
        with self.lock:
            self.rules.append(rule)
        return rule

    def heal(self):
        """Forgets all faults; what is held goes on."""
        with self.lock:
            rules, self.rules = self.rules, []
        for rule in rules:
            rule.fault.let_go()

    def age(self, pattern, seconds):
        """Objects and uploads whose keys are so are that much older in all answers."""
        with self.lock:
            self.older[pattern] = datetime.timedelta(seconds=seconds)

    def age_of(self, key):
        """How much older than it is, or None."""
        with self.lock:
            return next((age for pattern, age in self.older.items()
                         if fnmatch.fnmatch(key, pattern)), None)

    def forget(self):
        with self.lock:
            self.seen = []

    def requests(self, pattern="*"):
        with self.lock:
            return [request for request in self.seen if fnmatch.fnmatch(request.kind, pattern)]

    def is_idle(self):
        return all(request.over for request in self.requests())

    def count(self, pattern="*", status=None):
        return sum(1 for request in self.requests(pattern) if status in (None, request.status))

    def close(self):
        self.heal()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def serve(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(
            self.connected, sock=self.listener, limit=PIECE, ssl=self.tls))
        try:
            self.loop.run_forever()
        finally:
            server.close()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def take(self, request):
        with self.lock:
            self.seen.append(request)
            for rule in self.rules:
                if rule.takes(request):
                    return rule.fault
        return Fault()

    async def connected(self, reader, writer):
        try:
            more = True
            while more:
                request = Request(await reader.readuntil(b"\r\n\r\n"))
                try:
                    more = await Exchange(self, request, reader, writer).run()
                finally:
                    request.over = True
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


class Exchange:
    """One request and its answer."""

    def __init__(self, proxy, request, reader, writer):
        self.proxy = proxy
        self.request = request
        self.fault = proxy.take(request)
        self.reader = reader
        self.writer = writer
        self.expects = "expect" in request.headers

    async def run(self):
        """Whether the connection may carry another request."""
        await self.fault.before()
        if self.fault.answer:
            return await self.answer_instead()
        if self.fault.reset_at == 0:  # the store is not to see it at all
            self.reset()
            return False
        store_reader, store_writer = await asyncio.open_connection(*self.proxy.upstream, limit=PIECE)
        try:
            return await self.pass_on(store_reader, store_writer)
        finally:
            store_writer.close()

    async def answer_instead(self):
        head, body = self.fault.answer
        if not self.expects:
            await self.take_body(None)
        self.request.status = self.fault.status
        end = "Connection: close\r\n\r\n" if self.expects else "\r\n"
        self.writer.write((head + end).encode() + (body if self.request.method != "HEAD" else b""))
        await self.writer.drain()
        return not self.expects

    async def pass_on(self, store_reader, store_writer):
        store_writer.write(self.request.head)
        await store_writer.drain()
        head = None
        if self.expects:
            head = await read_answer_head(store_reader)
            if status_of(head) == 100:
                self.writer.write(head)
                head = None
        if head is None:
            if not await self.take_body(store_writer):
                return False
            head = await read_answer_head(store_reader)
        await self.fault.after()
        if self.fault.lose:
            self.reset()
            return False
        return await self.give(head, store_reader)

    async def take_body(self, store_writer):
        """To the store, or to nobody. False where the fault was to reset the connection."""
        while self.request.taken < self.request.length:
            if self.fault.reset_at is not None and self.request.taken >= self.fault.reset_at:
                self.reset()
                return False
            end = min(self.request.length, self.fault.reset_at or self.request.length)
            piece = await self.reader.read(min(self.piece(), end - self.request.taken))
            if not piece:
                raise asyncio.IncompleteReadError(b"", None)
            piece = altered(piece, self.request.taken, self.fault.spoil_at)
            self.request.taken += len(piece)
            await self.pace(len(piece))
            try:
                if store_writer:
                    store_writer.write(piece)
                    await store_writer.drain()
            except OSError:
                store_writer = None  # it has answered already and reads no more
        return True

    async def give(self, head, store_reader):
        self.request.status = status_of(head)
        if self.request.method == "HEAD":
            head = self.aged_head(head)
        elif self.request.kind in ("list-bucket", "uploads-bucket") and self.proxy.older:
            return await self.give_aged_list(head, store_reader)
        self.writer.write(head)
        found = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.IGNORECASE)
        if self.request.method == "HEAD" or self.request.status in (204, 304):
            pass
        elif found:
            if not await self.give_bytes(store_reader, int(found.group(1))):
                return False
        elif re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
            await self.give_chunks(store_reader)
        else:
            await self.give_bytes(store_reader, None)
            return False
        await self.writer.drain()
        return not self.expects or self.request.taken == self.request.length

    async def give_bytes(self, store_reader, length):
        while length is None or self.request.given < length:
            piece = await store_reader.read(
                self.piece() if length is None else min(self.piece(), length - self.request.given))
            if not piece:
                return length is None
            piece = altered(piece, self.request.given, self.fault.alter_at)
            if self.fault.cut_at is not None and self.request.given + len(piece) > self.fault.cut_at:
                self.writer.write(piece[:self.fault.cut_at - self.request.given])
                await self.writer.drain()
                if self.fault.cut_hard:
                    self.reset()
                return False
            self.request.given += len(piece)
            self.writer.write(piece)
            await self.writer.drain()
            await self.pace(len(piece))
        return True

    async def give_chunks(self, store_reader):
        while True:
            line = await store_reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            self.writer.write(line + await store_reader.readexactly(size + 2))
            await self.writer.drain()
            self.request.given += size
            if size == 0:
                return

    def aged_head(self, head):
        age = self.proxy.age_of(urllib.parse.unquote(self.request.path).split("/", 2)[-1])
        if age is None:
            return head
        return re.sub(rb"(?i)(\r\nlast-modified: *)([^\r]*)", lambda found: found.group(1) +
                      email.utils.format_datetime(email.utils.parsedate_to_datetime(
                          found.group(2).decode()) - age, usegmt=True).encode(), head)

    async def give_aged_list(self, head, store_reader):
        whole = (await read_body(head, store_reader)).decode()
        body = re.sub(r"<(Contents|Upload)>.*?</\1>", self.aged_item, whole, flags=re.DOTALL).encode()
        head = re.sub(rb"(?i)\r\n(content-length|transfer-encoding):[^\r]*", b"", head)
        self.writer.write(head[:-2] + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()
        return True

    def aged_item(self, found):
        item = found.group(0)
        key = re.search(r"<Key>(.*?)</Key>", item).group(1)
        age = self.proxy.age_of(xml.sax.saxutils.unescape(key))
        if age is None:
            return item
        return re.sub(r"<(LastModified|Initiated)>(.*?)Z</\1>", lambda date: (
            f"<{date.group(1)}>{older(date.group(2), age)}Z</{date.group(1)}>"), item)

    def piece(self):
        return PIECE if not self.fault.rate else max(1, self.fault.rate // STEPS_PER_SECOND)

    async def pace(self, size):
        if self.fault.rate:
            await asyncio.sleep(size / self.fault.rate)

    def reset(self):
        self.request.status = 0
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Trap:
    """A listener where nobody may come."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.visits = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                self.listener.accept()[0].close()
            except OSError:
                return
            self.visits += 1

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def altered(piece, offset, at):
    if at is None or not offset <= at < offset + len(piece):
        return piece
    changed = bytearray(piece)
    changed[at - offset] ^= 0x01
    return bytes(changed)


async def read_answer_head(reader):
    return await reader.readuntil(b"\r\n\r\n")


async def read_body(head, reader):
    found = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.IGNORECASE)
    if found:
        return await reader.readexactly(int(found.group(1)))
    body = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        body += (await reader.readexactly(size + 2))[:size]
        if size == 0:
            return body


def older(text, age):
    """Such a date, without its zone."""
    return (datetime.datetime.fromisoformat(text) - age).isoformat(timespec="milliseconds")


def status_of(head):
    return int(head.split(b" ", 2)[1])
