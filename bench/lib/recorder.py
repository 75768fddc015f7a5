"""A socket between service and engine that passes bytes on and keeps what the service sends, so
that the baseline can post the very bodies the service posts."""
import json
import re
import socket
import threading

HEAD = re.compile(rb"POST /v[0-9.]+(/containers/create|/containers/[0-9a-f]+/exec)[? ].*?\r\n\r\n",
                  re.S)
LENGTH = re.compile(rb"content-length: *([0-9]+)", re.I)


class Recorder:
    """Serves until `stop`. Slow: nothing is measured through it."""

    def __init__(self, path, engine_path):
        self.path = path
        self.engine_path = engine_path
        self.sent = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            engine.connect(self.engine_path)
            kept = bytearray()
            self.sent.append(kept)
            for source, target, keep in ((client, engine, kept), (engine, client, None)):
                threading.Thread(target=pump, args=(source, target, keep), daemon=True).start()

    def bodies(self, call):
        """What was posted so far to "/containers/create" or to an execution's "/exec"."""
        found = []
        for kept in list(self.sent):
            data = bytes(kept)
            for head in HEAD.finditer(data):
                size = int(LENGTH.search(head.group(0)).group(1))
                if head.group(1).endswith(call.encode()):
                    found.append(json.loads(data[head.end():head.end() + size]))
        return found

    def stop(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()


def pump(source, target, keep):
    try:
        while piece := source.recv(1 << 16):
            if keep is not None:
                keep += piece
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
