"""The lines that the README prints, as it prints them, in its order, on the native host."""
import re
import shutil
import subprocess

from context import ROOT, Failure

# What comes before it in a shell: a status of 400 or more ends it.
BEFORE = """set -euo pipefail
curl() { command curl --fail-with-body "$@"; }
exechost() { if [ "$1" = run ]; then shift; set -- run --image "$IMAGE" "$@"; fi; "$BINARY" "$@"; }
"""
SECTIONS = ["A first sandbox", "Talking to a command", "Sending a request again", "Files",
            "Following it", "Programs of a model", "Checkpoints in files"]
# What the lines at a terminal end with, where that is not 0.
STATUSES = {"exit 7": 7, "exechost share": 1}


def blocks(name):
    """{section: [the text of each block of shell lines]}"""
    found = {}
    section = lines = None
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if lines is not None and line == "```":
            found.setdefault(section, []).append("\n".join(lines) + "\n")
            lines = None
        elif lines is not None:
            lines.append(line)
        elif line.startswith("## "):
            section = line[3:]
        elif line == "```sh":
            lines = []
    return found


class Shell:
    def __init__(self, context):
        host, port = context.service.address
        self.address = f"{host}:{port}"
        self.directory = context.directory / "readme"
        self.directory.mkdir()
        for path in ROOT.glob("*.md"):
            shutil.copy(path, self.directory)
        self.environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                            "IMAGE": context.images["base"]["id"], "BINARY": str(context.binary),
                            "EXECHOST_SERVER": f"http://{self.address}"}

    def run(self, text, status=0):
        script = BEFORE + text.replace("127.0.0.1:8470", self.address)
        done = subprocess.run(["/bin/bash", "-c", script], cwd=self.directory, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300, check=False)
        out = done.stdout.decode("utf-8", "replace")
        if done.returncode != status:
            raise Failure(f"{done.returncode} instead of {status}:\n{text}\n{out}")
        return out


def check_sections(shell):
    found = blocks("README.md")
    seen = {}
    for section in SECTIONS:
        seen[section] = "".join(shell.run(text) for text in found[section])
    for section, wanted in (("A first sandbox", '"restoredFrom":"first-1"'),
                            ("Files", "docs/readme.md"), ("Following it", '"type":"exit"'),
                            ("Programs of a model", '"value":42'),
                            ("Checkpoints in files", '"ok":true')):
        if wanted not in seen[section]:
            raise Failure(f"{section} does not say {wanted}:\n{seen[section]}")


def check_terminal(shell):
    (text,) = blocks("README.md")["At a terminal"]
    out = ""
    for line in text.splitlines():
        status = next((code for part, code in STATUSES.items() if part in line), 0)
        out += shell.run(line + "\n", status)
    if not re.search(r"^42$", out, re.M) or "uid=65532" not in out:
        raise Failure(out)


def run(context):
    if context.host != "native":
        return  # the same lines; what differs by host the conformance table sees
    shell = Shell(context)
    check_sections(shell)
    shell.run("curl -sS -X DELETE http://127.0.0.1:8470/v1/executions/second\n")
    check_terminal(shell)
