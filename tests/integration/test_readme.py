"""The lines that the README and docs/curl.md print, as they print them, in their order, on the native
host."""
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
VERBS = {"get", "put", "post", "patch", "delete"}
PARTS = {"/assets/{asset}"}  # of the dashboard's page
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
            raise Failure(f"{done.returncode} instead of {status}: …{text[-300:]}\n…{out[-2000:]}")
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
    shell.run("exechost ps\nfor e in build again; do\n"
              "curl -sS -X DELETE http://127.0.0.1:8470/v1/executions/$e; done\n")
    if not re.search(r"^42$", out, re.M) or "uid=65532" not in out:
        raise Failure(out)


def check_every_route(shell, context):
    """The lines of docs/curl.md, and that no operation of the document is missing among them."""
    lines = "".join(text for section in blocks("docs/curl.md").values() for text in section)
    shell.run(f"S=http://{shell.address}\n{lines}")
    page = (ROOT / "docs/curl.md").read_text(encoding="utf-8")
    paths = context.call("GET", "/openapi.json").json()["paths"]
    missing = [f"{method.upper()} {path}" for path, item in paths.items() for method in item
               if method in VERBS and path not in PARTS and not is_shown(method, path, page)]
    if missing:
        raise Failure(f"docs/curl.md does not have {missing}")


def is_shown(method, path, page):
    """Whether a line of curl has this path; variables of the shell are what they stand for."""
    wanted = re.compile(re.sub(r"\\{[^}]*\\}", "[^/ ?\"]+", re.escape(path)) + r"($|[ ?\"])")
    for line in re.sub(r"\\\n", " ", page).splitlines():
        for name, value in re.findall(r"^([A-Z])=(.*)$", page, re.M):
            line = re.sub(rf"\${name}(?=[/ ?\"]|$)", value.replace("\\", ""), line)
        line = line.replace("$S", "")
        if "curl" in line and wanted.search(line) and verb_of(line) == method:
            return True
    return False


def verb_of(line):
    named = re.search(r"-X ([A-Z]+)", line)
    if named:
        return named.group(1).lower()
    if " -T " in line:
        return "put"
    return "post" if " -d " in line or "--data-binary" in line else "get"


def run(context):
    if context.host != "native":
        return  # the same lines; what differs by host the conformance table sees
    shell = Shell(context)
    check_sections(shell)
    shell.run("curl -sS -X DELETE http://127.0.0.1:8470/v1/executions/second\n")
    check_terminal(shell)
    check_every_route(shell, context)
