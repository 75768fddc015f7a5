"""One life of a service, and what it was told to be done: every kind of operation once, each answer
kept, so that what was acknowledged can be looked for afterwards."""
import json
import threading

RESOURCES = {"cpus": 1, "memoryBytes": 128 << 20, "diskBytes": 16 << 20, "pids": 32,
             "runtimeMs": 600000, "maxOutputBytes": 1 << 20}
BINDINGS = [{"global": "host", "functions": ["f"]}]
PROGRAM = "console.log('called'); return await host.f(20) + 1"
CONTENT = b"written by a client\n" * 200


class Strange(Exception):
    """An answer that no fault excuses."""


class Died(Exception):
    """The service is gone: the life is over."""


class Life:
    """`call(method, path, headers, body)` gives an answer, or None where the connection broke;
    `gone()` whether the service is. One thread, and one more while a program calls."""

    def __init__(self, call, gone, setting):
        self.send = call
        self.gone = gone
        self.host = setting["host"]
        self.image = setting["image"]
        self.repository = setting["repository"]
        self.programs = setting["programs"]
        self.executions = {}   # id: living, ending or ended
        self.commands = {}     # (execution, command): standard output
        self.checkpoints = {}  # id: digest, or None where the deletion was asked for
        self.deleted = set()
        self.runs = {}         # id: value
        self.files = {}        # (execution, path): content
        self.unsure = set()    # executions with a command whose answer never came
        self.refused = []

    # --- calls ---

    def call(self, method, path, value=None, body=None, key=None, media=None):
        headers = {"Content-Type": media} if media else {}
        if value is not None:
            body = json.dumps(value).encode()
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        answer = self.send(method, path, headers, body)
        if answer is None:
            if self.gone():
                raise Died()
            return None
        if answer.status >= 400:
            self.check_problem(method, path, answer)
            self.refused.append(f"{method} {path}: {answer.brief()}")
        return answer

    def check_problem(self, method, path, answer):
        if answer.media_type() != "application/problem+json" or "code" not in answer.json():
            raise Strange(f"{method} {path}: {answer.brief()}")

    def made(self, answer, status=201):
        return answer is not None and answer.status == status

    def provision(self, name, workspace):
        """Twice, because a failure has to give the id back."""
        for _ in range(2):
            answer = self.call("POST", "/v1/executions", {
                "executionId": name, "image": self.image, "workspace": workspace, "host": self.host,
                "resources": RESOURCES, "network": {"mode": "none"}, "environment": {"A": "b"},
                "labels": {"of": "fault"}})
            if self.made(answer):
                self.executions[name] = "living"
                return

    def command(self, execution, name, script, stdout):
        if self.executions.get(execution) != "living":
            return
        path = f"/v1/executions/{execution}/commands"
        self.unsure.add(execution)
        answer = self.call("POST", path, {"commandId": name, "command": "/bin/sh",
                                          "args": ["-c", script]}, key=f"key-{execution}-{name}")
        if self.made(answer):
            command = answer.json()
            if command["state"] == "exited":
                if (command["exitCode"], command["stdout"]) != (0, stdout):
                    raise Strange(f"{script}: {answer.brief()}")
                self.commands[execution, name] = stdout
            self.unsure.discard(execution)

    def converse(self, execution):
        """A command that reads, is written to, and is ended by a signal."""
        if self.executions.get(execution) != "living":
            return
        path = f"/v1/executions/{execution}/commands"
        self.unsure.add(execution)
        answer = self.call("POST", f"{path}?wait=false", {
            "commandId": "reader", "command": "/bin/sh", "stdinOpen": True,
            "args": ["-c", "read x; echo got $x; exec sleep 300"]})
        if not self.made(answer, 202):
            return
        self.call("POST", f"{path}/reader/stdin", body=b"word\n")
        self.call("POST", f"{path}/reader/signal", {"signal": "SIGTERM"})
        self.call("GET", f"{path}/reader?waitMs=3000")

    def abort(self, execution):
        """A command that is aborted takes its execution with it."""
        if self.executions.get(execution) != "living":
            return
        path = f"/v1/executions/{execution}/commands"
        self.unsure.add(execution)
        answer = self.call("POST", f"{path}?wait=false",
                           {"commandId": "aborted", "command": "sleep", "args": ["300"]})
        if self.made(answer, 202):
            self.executions[execution] = "ending"
            if self.made(self.call("DELETE", f"{path}/aborted"), 204):
                self.executions[execution] = "ended"

    def write(self, execution, path, content):
        if self.executions.get(execution) != "living":
            return
        self.files.pop((execution, path), None)
        answer = self.call("PUT", f"/v1/executions/{execution}/files/content?path={path}",
                           body=content)
        if self.made(answer, 204):
            self.files[execution, path] = content

    def checkpoint(self, execution, name):
        if self.executions.get(execution) != "living":
            return
        answer = self.call("POST", f"/v1/executions/{execution}/checkpoints", {"checkpointId": name})
        if self.made(answer):
            self.checkpoints[name] = answer.json()["archiveDigest"]

    def move_checkpoint(self, name):
        """Exported, deleted, imported again."""
        if name not in self.checkpoints:
            return
        digest = self.checkpoints[name]
        archive = self.call("GET", f"/v1/checkpoints/{name}/export")
        self.checkpoints[name] = None
        answer = self.call("DELETE", f"/v1/checkpoints/{name}")
        if self.made(answer, 204):
            self.deleted.add(name)
            if self.made(archive, 200):
                self.deleted.discard(name)
                answer = self.call("POST", "/v1/checkpoints/import", body=archive.body,
                                   media="application/x-tar")
                if self.made(answer):
                    self.checkpoints[name] = digest

    def restore(self, checkpoint, execution):
        if self.checkpoints.get(checkpoint) is None:
            return
        for _ in range(2):
            answer = self.call("POST", f"/v1/checkpoints/{checkpoint}/restore",
                               {"executionId": execution})
            if self.made(answer):
                self.executions[execution] = "living"
                return

    def terminate(self, execution):
        if execution not in self.executions:
            return
        self.executions[execution] = "ending"
        if self.made(self.call("DELETE", f"/v1/executions/{execution}"), 204):
            self.executions[execution] = "ended"

    # --- programs ---

    def run_program(self, name):
        if not self.programs:
            return
        answering = threading.Thread(target=self.answer_call, args=(name,), daemon=True)
        answering.start()
        answer = None
        try:
            answer = self.call("POST", "/v1/ptc/runs", {
                "runId": name, "program": PROGRAM, "description": "a life", "bindings": BINDINGS,
                "timeoutMs": 20000})
        finally:
            self.over = name
            answering.join(60)
        if self.made(answer) and answer.json()["outcome"] == "completed":
            if answer.json()["result"]["value"] != 42:
                raise Strange(f"run {name}: {answer.brief()}")
            self.runs[name] = 42

    over = None

    def answer_call(self, name):
        path = f"/v1/ptc/runs/{name}/calls"
        while self.over != name and not self.gone():
            answer = self.send("GET", f"{path}?state=pending&waitMs=500", {}, None)
            for call in answer.json()["items"] if self.made(answer, 200) else []:
                self.send("POST", f"{path}/{call['callId']}", {"Content-Type": "application/json"},
                          b'{"ok":true,"value":41}')
            threading.Event().wait(0.02)

    # --- the whole ---

    def live(self):
        self.provision("a", {"kind": "empty"})
        self.provision("g", {"kind": "git-worktree", "repositoryPath": self.repository, "revision": "HEAD"})
        self.command("a", "first", "echo first; mkdir -p d; echo made >d/made", "first\n")
        self.write("a", "sent", CONTENT)
        self.call("PATCH", "/v1/executions/a", {"labels": {"of": "patch"}})
        self.call("PUT", "/v1/executions/a/owner", {"ownerId": "me", "fencingToken": 1})
        self.checkpoint("a", "kept")
        self.checkpoint("g", "moved")
        self.call("POST", "/v1/checkpoints/kept/verify")
        self.move_checkpoint("moved")
        self.restore("kept", "r")
        if ("a", "first") in self.commands:
            self.command("r", "look", "cat d/made", "made\n")
        self.run_program("run-1")
        self.converse("g")
        self.terminate("g")
        self.abort("r")
        self.call("POST", "/v1/executions/a/commands?wait=false",
                  {"commandId": "long", "command": "sleep", "args": ["300"]})
        self.unsure.add("a")

    def settle(self, _seconds):
        """Whether what goes on by itself after a start is over by then."""
        return True

    def end(self):
        """The rest of a life that was not cut, so that its points are met as well."""
        self.terminate("a")
        for name in ("kept", "moved"):
            if name in self.checkpoints:
                self.checkpoints[name] = None
                if self.made(self.call("DELETE", f"/v1/checkpoints/{name}"), 204):
                    self.deleted.add(name)
