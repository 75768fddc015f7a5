"""The verbs for a person at a terminal, as processes of their own against the real service."""
import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time

from context import ROOT, Failure

sys.path.insert(0, str(ROOT / "clients/lib"))
from harness import Proxy  # noqa: E402  (an address that stays the same through restarts)

WAIT = 300


class Verbs:
    def __init__(self, context):
        self.context = context
        self.directory = context.directory
        host, port = context.service.address
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith("EXECHOST_")}
        self.environment["EXECHOST_SERVER"] = f"http://{host}:{port}"
        self.image = context.images["base"]["id"]

    def start(self, *arguments, **more):
        defaults = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                    "stderr": subprocess.PIPE}
        return subprocess.Popen([str(self.context.binary), *map(str, arguments)],
                                env=self.environment, cwd=self.directory, **{**defaults, **more})

    def end(self, process, data=None):
        out, errors = process.communicate(data, timeout=WAIT)
        if b"Sanitizer" in errors or b"runtime error" in errors:
            raise Failure(errors.decode("utf-8", "replace"))
        return process.returncode, out, errors.decode("utf-8", "replace")

    def verb(self, *arguments, data=None, expect=0):
        stdin = subprocess.PIPE if data is not None else subprocess.DEVNULL
        status, out, errors = self.end(self.start(*arguments, stdin=stdin), data)
        if status != expect:
            raise Failure(f"{arguments}: {status} instead of {expect}: {out[:300]} {errors}")
        return out, errors

    def run(self, *arguments, **more):
        return self.verb("run", "--image", self.image, "--host", self.context.host, *arguments,
                         **more)


def check(found, wanted, what):
    if found != wanted:
        raise Failure(f"{what}: {found!r} instead of {wanted!r}")


def living(context):
    return context.call("GET", "/v1/executions?state=provisioned").json()["items"]


def check_run(verbs, context):
    script = 'printf "out\\0\\377"; echo err >&2; echo "$A $PWD $#"; exit 7'
    out, errors = verbs.run("--env", "A=b c", "--", "sh", "-c", script, "x", "-y", "--", expect=7)
    check(out, b"out\0\xffb c /workspace 2\n", "standard output")
    check(errors, "err\n", "standard error")
    verbs.run("sh", "-c", "kill -TERM $$", expect=143)
    verbs.run("no-such-program", expect=127)
    _, errors = verbs.run("--timeout", "1s", "sleep", "600", expect=125)
    if "expired" not in errors and "timeout" not in errors:
        raise Failure(f"a limit is not told: {errors}")
    data = bytes(range(256)) * 2000
    out, _ = verbs.run("-i", "cat", data=data)
    check(out == data, True, "standard input")
    check(living(context), [], "executions after runs")


def check_faults(verbs):
    _, errors = verbs.verb("run", "--image", "base", "true", expect=1)
    if "EXECUTION_INVALID_REQUEST" not in errors or "/image" not in errors:
        raise Failure(errors)
    for arguments in (["run"], ["run", "--memory", "x", "true"], ["cp", "a", "b"], ["logs"],
                      ["restore"], ["ptc", "walk", "f"], ["ps", "x"], ["run", "--nothing"]):
        verbs.verb(*arguments, expect=2)
    for name in ("run", "ps", "logs", "cp", "checkpoint", "restore", "share", "ptc"):
        out, _ = verbs.verb(name, "--help")
        if not out.startswith(f"usage: exechost {name}".encode()):
            raise Failure(out.decode())
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    _, errors = verbs.verb("ps", "--server", address, expect=1)
    if "no service answers" not in errors:
        raise Failure(errors)
    verbs.verb("ps", "--server", "ftp://x", expect=1)


def check_interrupt(verbs, context):
    process = verbs.start("run", "--image", verbs.image, "--host", context.host, "sh", "-c",
                          "echo begun; sleep 600")
    check(process.stdout.readline(), b"begun\n", "output as it comes")
    process.send_signal(signal.SIGINT)
    status, _, _ = verbs.end(process)
    check(status, 130, "status of what was interrupted")
    check(living(context), [], "executions after an interrupt")


def check_workspace(verbs, context):
    """--keep, ps, cp in and out, checkpoint, restore, share."""
    verbs.run("--keep", "--name", "kept", "sh", "-c", "mkdir d; echo one >d/one; echo kept")
    out, _ = verbs.verb("ps")
    if b"kept" not in out or b"provisioned" not in out:
        raise Failure(out.decode())
    data = os.urandom(3 << 20)
    (verbs.directory / "in file").write_bytes(data)
    os.chmod(verbs.directory / "in file", 0o750)
    verbs.verb("cp", "in file", "kept:d/a b&c?")
    verbs.verb("cp", "kept:d/a b&c?", "back")
    check((verbs.directory / "back").read_bytes() == data, True, "a file there and back")
    out, _ = verbs.verb("cp", "kept:d/one", "-")
    check(out, b"one\n", "a file to standard output")
    verbs.verb("cp", "-", "kept:d/two", data=b"two\n")
    verbs.verb("cp", "kept:d/none", "nothing", expect=1)
    check((verbs.directory / "nothing").exists() or (verbs.directory / "nothing.partial").exists(),
          False, "a file that failed")
    out, _ = verbs.verb("cp", "--archive", "kept:d", "-")
    with tarfile.open(fileobj=io.BytesIO(out)) as archive:
        found = {name.removeprefix("./") for name in archive.getnames()}
    if not {"one", "two", "a b&c?"} <= found:
        raise Failure(f"an archive has {found}")
    (verbs.directory / "d.tar").write_bytes(out)
    verbs.verb("cp", "--archive", "d.tar", "kept:again")
    made, _ = verbs.verb("checkpoint", "--name", "kept-1", "kept")
    check(made, b"kept-1\n", "the checkpoint's id")
    restored, _ = verbs.verb("restore", "--host", context.host,
                             "--name", "restored", "kept-1")
    check(restored, b"restored\n", "the execution's id")
    out, _ = verbs.verb("cp", "restored:again/two", "-")
    check(out, b"two\n", "a restored file")
    _, errors = verbs.verb("share", "kept-1", expect=1)
    if "SHARED_STORE_NOT_CONFIGURED" not in errors:
        raise Failure(errors)
    for name in ("kept", "restored"):
        context.expect(204, "DELETE", f"/v1/executions/{name}")
    out, _ = verbs.verb("ps", "-a")
    if b"terminated" not in out:
        raise Failure(out.decode())
    context.expect(204, "DELETE", "/v1/checkpoints/kept-1")


def check_logs(verbs, context):
    """Following through a kill of the service, on the host whose commands live on."""
    execution = context.provision()
    name = execution.rsplit("/", 1)[1]
    script = "echo one; echo two >&2; until [ -e go ]; do sleep 0.05; done; echo three"
    command = context.start_command(execution, script)
    while context.call("GET", command).json()["stdout"] != "one\n":
        time.sleep(0.02)
    out, errors = verbs.verb("logs", name)
    check((out, errors), (b"one\n", "two\n"), "what is there")
    proxy = Proxy(lambda: context.service.address)
    server = "127.0.0.1:%d" % proxy.listener.getsockname()[1]
    process = verbs.start("logs", "-f", "--server", server, name, command.rsplit("/", 1)[1])
    check(process.stdout.readline(), b"one\n", "output as it comes")
    if context.host == "native":
        context.restart(kill=True)
    context.expect(204, "PUT", f"{execution}/files/content?path=go", body=b"")
    check(verbs.end(process), (0, b"three\n", "two\n"), "the rest of the output")
    proxy.cut()
    proxy.listener.close()
    verbs.verb("logs", "--server", "%s:%d" % context.service.address, "nothing-here", expect=1)


def check_ptc(verbs):
    (verbs.directory / "p.ts").write_text(
        'const a: number = await host.number({x: 1}); console.log("asked", a);\n'
        'let said; try { await host.fail(0) } catch (e) { said = e.message }\n'
        'return [a, said, await tool.echo({deep: [1e21, "\\ud800"]}), await tool.none(0) === undefined]',
        encoding="utf-8")
    (verbs.directory / "answers.json").write_text(
        '{"host": {"number": 41, "fail": {"$error": "no such thing"}}}', encoding="utf-8")
    command = 'case $2 in echo) cat ;; none) ;; *) echo "what is $1.$2" >&2; exit 1 ;; esac'
    tools = ["--command", command, "--function", "tool.echo", "--function", "tool.none",
             "--function", "host.unknown"]
    out, errors = verbs.verb("ptc", "run", "--answers", "answers.json", *tools, "p.ts")
    check(out, b'[41,"no such thing",{"deep":[1e+21,"\\ud800"]},true]\n', "a program's value")
    check(errors, "asked 41\n", "a program's log")
    _, errors = verbs.verb("ptc", "run", *tools, "-", data=b"await host.unknown(0)", expect=1)
    if "exception" not in errors or "what is host.unknown" not in errors:
        raise Failure(errors)
    _, errors = verbs.verb("ptc", "run", "--timeout", "300ms", "-", expect=1,
                           data=b"await new Promise(() => {})")
    if "timeout: execution deadline reached (300ms)" not in errors:
        raise Failure(errors)
    verbs.verb("ptc", "run", "no-such-file", expect=1)


def check_ptc_interrupt(verbs):
    (verbs.directory / "w.ts").write_text('console.log("begun"); await new Promise(() => {})',
                                          encoding="utf-8")
    process = verbs.start("ptc", "run", "w.ts")
    check(process.stderr.readline(), b"begun\n", "a log as it comes")
    process.send_signal(signal.SIGINT)
    status, _, _ = verbs.end(process)
    check(status, 130, "status of a run that was interrupted")
    items = verbs.context.call("GET", "/v1/ptc/runs?limit=1").json()["items"]
    check((items[0]["state"], items[0]["outcome"]), ("settled", "abort"), "the run")


def check_terminal(verbs, context):
    """A bar on a terminal while a slow transfer goes on, and nothing of it at the end."""
    verbs.run("--keep", "--name", "slow", "--disk", "64M", "sh", "-c",
              "dd if=/dev/zero of=big bs=1M count=24 2>/dev/null")
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=trickle, args=(listener, context.service.address), daemon=True).start()
    master, slave = pty.openpty()
    process = verbs.start("cp", "--server", "127.0.0.1:%d" % listener.getsockname()[1],
                          "slow:big", "big", stderr=slave)
    os.close(slave)
    seen = read_terminal(master)
    check(process.wait(WAIT), 0, "cp at a terminal")
    check((verbs.directory / "big").stat().st_size, 24 << 20, "bytes of the file")
    if "of 24.0 MiB" not in seen or "[" not in seen or not seen.endswith("\r\x1b[K"):
        raise Failure(f"no bar, or one that stays: {seen[-300:]!r}")
    listener.close()
    context.expect(204, "DELETE", "/v1/executions/slow")


def trickle(listener, target):
    """Passes one exchange on, slowly."""
    connection, _ = listener.accept()
    onward = socket.create_connection(target)
    onward.sendall(connection.recv(65536))
    while True:
        data = onward.recv(1 << 18)
        if not data:
            break
        try:
            connection.sendall(data)
        except OSError:
            break
        time.sleep(0.02)
    connection.close()


def read_terminal(master):
    seen = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            return seen.decode()
        if not data:
            return seen.decode()
        seen += data


def check_token(verbs, context):
    """A service with tokens on a unix socket."""
    out = subprocess.run([str(context.binary), "token", "--tenant", "t"], stdout=subprocess.PIPE,
                         timeout=WAIT, check=True, env=verbs.environment).stdout.decode().split("\n")
    config = json.loads(context.service.config_path.read_text(encoding="utf-8"))
    path = verbs.directory / "tokens.json"
    path.write_text(json.dumps({**config, "tokens": [json.loads(out[1])]}), encoding="utf-8")
    where = verbs.directory / "socket"
    service = verbs.start("serve", "--config", path, "--listen", f"unix:{where}", "--data",
                          verbs.directory / "second", stderr=subprocess.DEVNULL)
    try:
        service.stdout.readline()
        verbs.verb("ps", "--server", f"unix:{where}", expect=1)
        verbs.environment["EXECHOST_TOKEN"] = out[0]
        verbs.verb("ps", "--server", f"unix:{where}")
    finally:
        verbs.environment.pop("EXECHOST_TOKEN", None)
        service.terminate()
        service.wait(WAIT)
        service.stdout.close()


def run(context):
    verbs = Verbs(context)
    check_run(verbs, context)
    check_faults(verbs)
    check_interrupt(verbs, context)
    check_workspace(verbs, context)
    check_ptc(verbs)
    check_ptc_interrupt(verbs)
    check_terminal(verbs, context)
    check_token(verbs, context)
    check_logs(verbs, context)
