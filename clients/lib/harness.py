"""What a test of a client talks to: a service of the binary under test behind a proxy whose address
stays the same through restarts, and a control address at which the test asks for trouble:

    POST /restart          the service stopped in good order and started again
    POST /kill             the service killed by SIGKILL and started again
    POST /cut              every open connection cut
    POST /cut-after?N      every further connection cut behind N bytes of answers; 0: none
    POST /refuse?on|off    new connections are closed at once
"""
import http.server
import json
import pathlib
import socket
import threading

from lib import native, node, service


class Proxy:
    """Any thread may call."""

    def __init__(self, target):
        self.target = target
        self.limit = 0
        self.refusing = False
        self.lock = threading.Lock()
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        limit = self.limit
        try:
            if self.refusing:
                raise OSError("refused")
            onward = socket.create_connection(self.target())
        except OSError:
            connection.close()
            return
        pair = (connection, onward)
        with self.lock:
            self.open.add(pair)
        threading.Thread(target=self.pump, args=(connection, onward, 0), daemon=True).start()
        self.pump(onward, connection, limit)
        self.close(pair)

    @staticmethod
    def pump(source, sink, limit):
        """Until one side ends, or `limit` bytes have gone by."""
        left = limit
        try:
            while True:
                data = source.recv(65536 if not limit else min(left, 65536))
                if not data:
                    break
                sink.sendall(data)
                left -= len(data)
                if limit and left <= 0:
                    return
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # cut meanwhile

    def close(self, pair):
        with self.lock:
            self.open.discard(pair)
        for end in pair:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def cut(self):
        with self.lock:
            pairs = list(self.open)
        for pair in pairs:
            self.close(pair)


class Control(http.server.BaseHTTPRequestHandler):
    harness = None

    def do_POST(self):
        name, _, argument = self.path[1:].partition("?")
        try:
            self.harness.control(name, argument)
            status, text = 204, b""
        except Exception as error:  # told to the test
            status, text = 500, str(error).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Harness:
    def __init__(self, binary, images, directory):
        self.images = json.loads(pathlib.Path(images).read_text(encoding="utf-8"))
        self.directory = directory
        config = {"native": {"images": str(directory / "images")}, "defaultHost": "native",
                  "ptc": {"node": node.find()}}
        self.service = service.Service(binary, directory / "service", config)
        base = {"base": self.images["base"]}
        native.import_images(binary, base, self.service.config_path, directory)
        self.proxy = Proxy(lambda: self.service.address)
        handler = type("Handler", (Control,), {"harness": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.lock = threading.Lock()

    def start(self):
        self.service.start()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def environment(self):
        port = self.proxy.listener.getsockname()[1]
        return {"EXECHOST_TEST_URL": f"http://127.0.0.1:{port}",
                "EXECHOST_TEST_CONTROL": f"http://127.0.0.1:{self.server.server_port}",
                "EXECHOST_TEST_IMAGE": self.images["base"]["id"]}

    def control(self, name, argument):
        with self.lock:
            if name == "kill":
                self.service.kill()
                self.service.start()
            elif name == "restart":
                self.service.stop()
                self.service.start()
            elif name == "cut":
                self.proxy.cut()
            elif name == "cut-after":
                self.proxy.limit = int(argument)
            elif name == "refuse":
                self.proxy.refusing = argument == "on"
            else:
                raise ValueError(f"no such request: {name}")

    def stop(self):
        """In good order; then nothing of a sanitizer was said and nothing is left."""
        self.service.stop()
        self.service.check_log()

    def kill(self):
        self.server.shutdown()
        self.server.server_close()
        self.proxy.listener.close()
        self.service.kill()
