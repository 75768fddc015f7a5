"""The kernel's own floor under the native host (bench/floor.c), asked line by line."""
import subprocess

from lib.wire import WireError


class Floor:
    def __init__(self, binary, root):
        self.process = subprocess.Popen([binary, root], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        """Milliseconds, or cycles a second."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise WireError(f"the floor failed at {line!r}")
        return float(answer)

    def done(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
