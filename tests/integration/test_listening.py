"""How the service is reached, with curl: TLS from files, unix sockets with a mode, sockets that a service
manager hands over; and what SIGHUP changes under open connections."""
import hashlib
import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import threading
import time

from mixed_output import check

LINE = "listening on "


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def certificate(directory, name):
    """A key and its certificate for localhost, which is its own authority."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.pem"),
            "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")


def curl(*arguments):
    done = subprocess.run(["curl", "-sS", "--max-time", "60", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Served:
    """The service with a configuration and, where one is given, a socket as descriptor 3."""

    def __init__(self, context, name, config, listen=None, handed=None):
        self.directory = context.directory / name
        self.directory.mkdir()
        self.config = self.directory / "config.json"
        self.config.write_text(json.dumps(config))
        self.errors = self.directory / "stderr"
        arguments = [str(context.binary), "serve", "--config", str(self.config), "--data",
                     str(self.directory / "data")]
        arguments += ["--listen", listen] if listen else []
        self.start(arguments, handed)

    def start(self, arguments, handed):
        if handed:
            # The shell has the number of the process that it becomes.
            arguments = ["/bin/sh", "-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"', "sh", *arguments]
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                preexec_fn=(lambda: os.dup2(handed.fileno(), 3)) if handed else None,
                pass_fds=(3,) if handed else ())
        line = self.process.stdout.readline().decode().rstrip("\n")
        check(line.startswith(LINE), f"{line!r}, {self.errors.read_text()[-2000:]}")
        self.address = line[len(LINE):]

    def logged(self, text):
        return self.errors.read_text().count(f'"message":"{text}"')

    def reload(self):
        """SIGHUP, and what it did."""
        done = self.logged("reloaded")
        failed = self.logged("reloading failed, what was there stays")
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 120
        while True:
            if self.logged("reloaded") > done:
                return True
            if self.logged("reloading failed, what was there stays") > failed:
                return False
            check(time.monotonic() < deadline, "SIGHUP did nothing")
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        self.process.stdout.close()
        text = self.errors.read_text()
        check(code == 0 and "Sanitizer" not in text, f"ended with {code}: {text[-3000:]}")


def own_config(context, **more):
    return {"native": {"images": str(context.directory / "images")}, **more}


def subject(address):
    """The name in the certificate that is shown now."""
    host, port = address.removeprefix("https://").rsplit(":", 1)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((host, int(port)), 60) as raw:
        with context.wrap_socket(raw) as wrapped:
            shown = wrapped.getpeercert(True)
    text = subprocess.run(["openssl", "x509", "-inform", "der", "-noout", "-subject", "-nameopt",
                           "multiline"], input=shown, stdout=subprocess.PIPE, check=True)
    return text.stdout.decode().rsplit("= ", 1)[1].strip()


def kept_connection(served, trusted):
    host, port = served.address.removeprefix("https://").rsplit(":", 1)
    return http.client.HTTPSConnection(host, int(port), timeout=60,
                                       context=ssl.create_default_context(cafile=trusted))


def ask(connection, path, headers=None):
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_tls(context):
    for name in ("first", "second"):
        certificate(context.directory, name)
    pem, key = context.directory / "now.pem", context.directory / "now.key"

    def put(certificate_of, key_of):
        pem.write_bytes((context.directory / f"{certificate_of}.pem").read_bytes())
        key.write_bytes((context.directory / f"{key_of}.key").read_bytes())

    put("first", "first")
    served = Served(context, "tls", own_config(context, tls={"certificate": str(pem), "key": str(key)}),
                    "127.0.0.1:0")
    try:
        check(served.address.startswith("https://127.0.0.1:"), served.address)
        first = str(context.directory / "first.pem")
        code, text, errors = curl("--cacert", first, f"{served.address}/healthz")
        check(code == 0 and json.loads(text) == {"status": "ok"}, f"{code} {text} {errors}")
        check(curl(f"{served.address}/healthz")[0] == 60, "a certificate that nobody vouches for")
        check(curl("--cacert", first, "--tls-max", "1.1", f"{served.address}/healthz")[0] != 0, "old TLS")
        check(curl(served.address.replace("https", "http") + "/healthz")[0] != 0, "plain HTTP")
        refused_upload(served, first)
        rotate(served, first, put)
    finally:
        served.stop()


def refused_upload(served, trusted):
    """An answer in the middle of an upload is within TLS too."""
    body = served.directory / "large"
    with open(body, "wb") as out:
        out.truncate(8 << 20)
    code, text, errors = curl("--cacert", trusted, "-o", "-", "-w", "%{http_code}", "-H", "Expect:", "-H",
                              "Content-Type: application/json", "-H", "Transfer-Encoding: chunked",
                              "--data-binary", f"@{body}", f"{served.address}/v1/ptc/resolve")
    check(text.endswith("413"), f"{code} {text[-200:]} {errors}")


def rotate(served, first, put):
    """A new certificate for new connections, while those that are open go on."""
    kept = kept_connection(served, first)
    check(ask(kept, "/healthz") == 200 and subject(served.address) == "first", "before")
    put("second", "first")
    check(not served.reload(), "a key that is not the certificate's was taken")
    check(subject(served.address) == "first", "the old pair stays")
    put("second", "second")
    for _ in range(3):
        check(served.reload(), "not reloaded")
        check(subject(served.address) == "second", "after")
        check(ask(kept, "/healthz") == 200, "the open connection")
    kept.close()


def test_tokens(context):
    """Tokens come and go with SIGHUP; open streams and connections stay."""
    def entry(name):
        return {"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": "acme",
                "scopes": ["read"]}

    def auth(name):
        return {"Authorization": f"Bearer {name}"}

    config = own_config(context, tokens=[entry("old")])
    served = Served(context, "tokens", config, "127.0.0.1:0")
    try:
        host, port = served.address.removeprefix("http://").rsplit(":", 1)
        kept = http.client.HTTPConnection(host, int(port), timeout=60)
        stream = http.client.HTTPConnection(host, int(port), timeout=60)
        stream.request("GET", "/v1/events", headers=auth("old"))
        follower = stream.getresponse()
        check(follower.status == 200 and ask(kept, "/v1/executions", auth("old")) == 200, "before")
        check(ask(kept, "/v1/executions", auth("new")) == 401, "not yet")
        served.config.write_text(json.dumps({**config, "tokens": [entry("new")]}))
        check(served.reload(), "not reloaded")
        check(ask(kept, "/v1/executions", auth("old")) == 401, "gone")
        check(ask(kept, "/v1/executions", auth("new")) == 200, "there")
        served.config.write_text(json.dumps(own_config(context)))
        check(not served.reload(), "without tokens everybody could ask")
        check(ask(kept, "/v1/executions", auth("new")) == 200, "still there")
        check(follower.fp is not None and not follower.isclosed(), "the stream was cut")
        stream.close()
        kept.close()
    finally:
        served.stop()


def test_unix(context):
    path = context.directory / "exechost.sock"
    served = Served(context, "unix", own_config(context, socketMode="0600"), f"unix:{path}")
    try:
        check(served.address == f"unix:{path}", served.address)
        check(stat.S_IMODE(path.stat().st_mode) == 0o600, oct(path.stat().st_mode))
        code, text, errors = curl("--unix-socket", str(path), "http://any.name/readyz")
        check(code == 0 and "status" in text, f"{code} {text} {errors}")
    finally:
        served.stop()
    check(not path.exists(), "the socket is left")


def test_handed(context):
    """A socket as a service manager hands it over, of both kinds; it stays when the service ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        waiting = threading.Thread(target=lambda: results.append(curl(f"http://127.0.0.1:{port}/healthz")))
        results = []
        waiting.start()  # it is answered once the service is there
        served = Served(context, "handed", own_config(context), handed=listener)
        try:
            waiting.join()
            check(served.address == f"http://127.0.0.1:{port}", served.address)
            check(results[0][0] == 0 and "ok" in results[0][1], results)
        finally:
            served.stop()
    path = context.directory / "handed.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        served = Served(context, "handed-unix", own_config(context), handed=listener)
        try:
            code, text, errors = curl("--unix-socket", str(path), "http://localhost/healthz")
            check(code == 0 and "ok" in text, f"{code} {text} {errors}")
        finally:
            served.stop()
        check(path.exists(), "the manager's socket was removed")


def test_refused(context):
    """What can't be listened on is said and named."""
    cases = {"fd:0": "fd:0", "fd:9": "fd:9", "fd:x": "fd:x"}
    for listen, says in cases.items():
        done = subprocess.run([str(context.binary), "serve", "--listen", listen, "--data",
                               str(context.directory / "none")], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        check(done.returncode != 0 and says in done.stderr.decode(), f"{listen}: {done}")


def run(context):
    for test in (test_tls, test_tokens, test_unix, test_handed, test_refused):
        test(context)
