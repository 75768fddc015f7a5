"""A unix socket between service and engine that can be cut, and can answer in the engine's place.

Used only where the real engine can't be made to fail in the way under test. Each connection
carries one request: `Connection: close` is put into it, so all that follows is plain bytes.
"""
import json
import pathlib
import re
import socket
import threading

LIMIT = 1 << 20


class Rule:
    """What to do with requests whose first line matches.

    `answer` {status, message} instead of the engine; or `replace` [[regex, text]…] in its answer;
    or `delayMs` before the request goes on. `times` limits how often it applies, `skip` lets the
    first ones pass.
    """

    def __init__(self, rule):
        unknown = set(rule) - {"match", "answer", "replace", "delayMs", "times", "skip"}
        if unknown:
            raise ValueError(f"unknown keys of a proxy rule: {sorted(unknown)}")
        self.match = re.compile(rule["match"])
        self.answer = rule.get("answer")
        self.replace = rule.get("replace")
        self.delay_ms = rule.get("delayMs", 0)
        self.left = rule.get("times")
        self.skip = rule.get("skip", 0)
        self.hits = 0


class Proxy:
    def __init__(self, path, engine_path):
        self.path = pathlib.Path(path)
        self.engine_path = engine_path
        self.lock = threading.Lock()
        self.rules = []
        self.open = set()
        self.listener = None
        self.seen = []
        self.restore()

    def restore(self):
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.path))
        self.listener.listen(64)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def cut(self):
        """Nothing gets through any more, and what was open is closed."""
        self.path.unlink(missing_ok=True)
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        with self.lock:
            pending, self.open = self.open, set()
        for item in pending:
            shut(item)

    def set_rules(self, rules):
        with self.lock:
            self.rules = [Rule(rule) for rule in rules]

    def accept(self, listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def rule_for(self, line):
        with self.lock:
            self.seen.append(line)
            for rule in self.rules:
                if not rule.match.search(line) or rule.left == 0:
                    continue
                if rule.skip > 0:
                    rule.skip -= 1
                    continue
                if rule.left is not None:
                    rule.left -= 1
                rule.hits += 1
                return rule
        return None

    def serve(self, peer):
        engine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with self.lock:
            self.open.update((peer, engine))
        try:
            head, rest = read_head(peer)
            if head:
                self.exchange(peer, engine, head, rest)
        except OSError:
            pass
        finally:
            with self.lock:
                self.open.difference_update((peer, engine))
            peer.close()
            engine.close()

    def exchange(self, peer, engine, head, rest):
        rule = self.rule_for(head.split(b"\r\n", 1)[0].decode("latin-1"))
        if rule and rule.delay_ms:
            threading.Event().wait(rule.delay_ms / 1000)
        if rule and rule.answer:
            drain_body(peer, head, rest)
            peer.sendall(canned(rule.answer))
            return
        engine.connect(self.engine_path)
        engine.sendall(one_request(head) + rest)
        back = threading.Thread(target=pump, args=(peer, engine), daemon=True)
        back.start()
        if rule and rule.replace:
            peer.sendall(rewritten(read_all(engine), rule.replace))
            return
        pump(engine, peer)
        shut(peer)


def shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def pump(source, target):
    try:
        while True:
            piece = source.recv(65536)
            if not piece:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(piece)
    except OSError:
        pass


def read_head(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece or len(data) > LIMIT:
            return None, b""
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def read_all(connection):
    data = b""
    while True:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece


def drain_body(peer, head, rest):
    found = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.IGNORECASE)
    missing = int(found.group(1)) - len(rest) if found else 0
    while missing > 0:
        piece = peer.recv(65536)
        if not piece:
            return
        missing -= len(piece)


def one_request(head):
    if re.search(rb"\r\nconnection: *upgrade", head, re.IGNORECASE):
        return head
    head = re.sub(rb"\r\nconnection:[^\r]*", b"", head, flags=re.IGNORECASE)
    return head[:-4] + b"\r\nConnection: close\r\n\r\n"


def canned(answer):
    body = json.dumps({"message": answer.get("message", "refused")}).encode()
    return (b"HTTP/1.1 %d Refused\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n" % (answer["status"], len(body))) + body


def rewritten(answer, replacements):
    head, _, body = answer.partition(b"\r\n\r\n")
    if re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
        body = dechunked(body)
    text = body.decode()
    for pattern, replacement in replacements:
        text = re.sub(pattern, replacement, text)
    body = text.encode()
    head = re.sub(rb"\r\n(transfer-encoding|content-length):[^\r]*", b"", head,
                  flags=re.IGNORECASE)
    return head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def dechunked(data):
    result = b""
    while data:
        line, _, data = data.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        if size == 0:
            break
        result += data[:size]
        data = data[size + 2:]
    return result
