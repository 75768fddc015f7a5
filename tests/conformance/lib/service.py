"""The real binary as a child: started with its own data directory, watched, stopped, killed."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

LISTENING = re.compile(r"^listening on http://([^:]+):([0-9]+)$")
SANITIZER = re.compile(r"(ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|runtime error:|"
                       r"SUMMARY: \w*Sanitizer)")
START_SECONDS = 60
STOP_SECONDS = 60


class ServiceError(Exception):
    """The service did not start, stop or stay clean."""


class Service:
    """Blocks in start and stop; one thread at a time may call those. A `lean` one keeps little of
    what was freed when it is built with AddressSanitizer, so that its size says something."""

    def __init__(self, binary, directory, config, arguments=None, lean=False):
        self.binary = str(binary)
        self.directory = pathlib.Path(directory)
        self.data = self.directory / "data"
        self.config_path = self.directory / "config.json"
        self.arguments = arguments or []
        self.listen = "127.0.0.1:0"
        self.lean = lean
        self.environment = {}  # more variables of its processes
        self.directory.mkdir(parents=True, exist_ok=True)
        self.write_config(config)
        self.process = None
        self.address = None
        self.starts = 0

    def write_config(self, config):
        self.config_path.write_text(json.dumps(config), encoding="utf-8")

    def start(self, wait=True, faults=None, points=None):
        """`faults` as EXECHOST_FAULT; the points that are met are listed in the file `points`."""
        if self.process:
            raise ServiceError("the service runs already")
        self.starts += 1
        errors = open(self.directory / f"stderr.{self.starts}", "wb")
        with errors:
            self.process = subprocess.Popen(
                [self.binary, "serve", "--config", str(self.config_path),
                 "--listen", self.listen, "--data", str(self.data), *self.arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                env={**environment(self.lean), **self.environment,
                     **({"EXECHOST_FAULT": faults} if faults else {}),
                     **({"EXECHOST_FAULT_LIST": str(points)} if points else {})},
                start_new_session=True)
        if wait:
            self.wait_listening()

    def wait_listening(self, seconds=START_SECONDS):
        lines = []
        found = threading.Event()
        stream = self.process.stdout

        def read():
            for line in stream:
                text = line.decode("utf-8", "replace").rstrip("\n")
                lines.append(text)
                match = LISTENING.match(text)
                if match:
                    self.address = (match.group(1), int(match.group(2)))
                    found.set()

        threading.Thread(target=read, daemon=True).start()
        deadline = time.monotonic() + seconds
        while not found.wait(0.02):
            if self.process.poll() is not None:
                code = self.process.returncode
                self.process = None
                raise ServiceError(f"exited with {code} before listening: {self.last_errors()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServiceError(f"not listening after {seconds} s: {lines}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=STOP_SECONDS):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServiceError(f"still there {seconds} s after the signal") from error
        self.process = None
        return code

    def stop(self):
        """SIGTERM, then the exit status must be 0 and nothing of a sanitizer was printed."""
        if not self.process:
            return
        self.signal(signal.SIGTERM)
        code = self.wait()
        if code != 0:
            raise ServiceError(f"exit status {code} after SIGTERM: {self.last_errors()}")
        self.check_errors()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def check_errors(self):
        """Raises with what a sanitizer said in any run of this service."""
        for number in range(1, self.starts + 1):
            text = (self.directory / f"stderr.{number}").read_text("utf-8", "replace")
            found = SANITIZER.search(text)
            if found:
                raise ServiceError(f"sanitizer: {text[max(0, found.start() - 200):][:3000]}")

    def check_log(self):
        """Raises where the service logged an error of its own: what it answered 500 for was a row's
        doing and checked there."""
        for number in range(1, self.starts + 1):
            for line in (self.directory / f"stderr.{number}").read_text("utf-8").splitlines():
                if '"level":"error"' in line and '"message":"request failed"' not in line:
                    raise ServiceError(f"logged: {line[:1000]}")

    def last_errors(self):
        path = self.directory / f"stderr.{self.starts}"
        return path.read_text("utf-8", "replace")[-2000:] if path.exists() else ""

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+([0-9]+) kB", status).group(1)) * 1024


def environment(lean=False):
    """The caller's environment without what would configure the service."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EXECHOST_")}
    kept.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0")
    kept.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    if lean:
        kept["ASAN_OPTIONS"] += ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
    return kept


def has_fault_points(binary):
    return b"EXECHOST_FAULT\0" in pathlib.Path(binary).read_bytes()


def run_binary(binary, arguments, directory, timeout=60):
    """Runs it to its end; returns (status, stdout, stderr)."""
    process = subprocess.run([str(binary), *arguments], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory,
                             env=environment(), timeout=timeout, check=False)
    return (process.returncode, process.stdout.decode("utf-8", "replace"),
            process.stderr.decode("utf-8", "replace"))
