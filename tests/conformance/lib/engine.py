"""What the table needs of the Docker engine besides the service: look, make foreign things."""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import time
import urllib.parse

from . import client

DEFAULT_SOCKET = "/var/run/docker.sock"


class EngineError(Exception):
    """The engine refused, or something is not as a row says."""


class Engine:
    """Stateless but for the socket's path; any thread may call. Blocks."""

    def __init__(self, socket=DEFAULT_SOCKET):
        self.socket = socket

    def request(self, method, path, query=None, body=None, good=(200, 201, 204)):
        target = path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/json"} if data is not None else {}
        answer = client.call(self.socket, method, target, headers, data)
        if answer.status not in good:
            raise EngineError(f"{method} {target}: {answer.brief()}")
        return json.loads(answer.body) if answer.body and answer.status != 204 else None

    def containers(self, labels):
        return self.request("GET", "/containers/json", {
            "all": "1", "filters": json.dumps({"label": labels})})

    def volumes(self, labels):
        found = self.request("GET", "/volumes", {"filters": json.dumps({"label": labels})})
        return found.get("Volumes") or []

    def of_execution(self, instance, execution):
        return self.containers([f"exechost.instance={instance}",
                                f"exechost.execution={execution}"])

    def inspect(self, identity):
        return self.request("GET", f"/containers/{identity}/json")

    def left_of(self, instance, execution=None):
        """Names of containers and volumes that carry the labels."""
        labels = [f"exechost.instance={instance}"]
        if execution:
            labels.append(f"exechost.execution={execution}")
        return ([f"container {item['Names'][0]} ({item['State']})"
                 for item in self.containers(labels)] +
                [f"volume {item['Name']}" for item in self.volumes(labels)])

    def image_id(self, reference):
        """The engine does not take a name with an image id: find it by any of its digests."""
        digest = reference.split("@")[1]
        for image in self.request("GET", "/images/json"):
            digests = [item.split("@")[1] for item in image.get("RepoDigests") or []]
            if image["Id"] == digest or digest in digests:
                return image["Id"]
        raise EngineError(f"no image {reference}")

    def export(self, reference):
        target = f"/images/{self.image_id(reference)}/get"
        answer = client.call(self.socket, "GET", target)
        if answer.status != 200:
            raise EngineError(f"GET {target}: {answer.brief()}")
        return answer.body

    def create_foreign(self, name, image, labels, running):
        body = {"Image": self.image_id(image), "Labels": labels, "NetworkDisabled": True,
                "Entrypoint": ["/bin/sh", "-c", "exec sleep 600"], "Cmd": [],
                "HostConfig": {"NetworkMode": "none", "Memory": 16 << 20, "PidsLimit": 16}}
        made = self.request("POST", "/containers/create", {"name": name}, body)
        if running:
            self.request("POST", f"/containers/{made['Id']}/start")
        return made["Id"]

    def remove(self, identity):
        self.request("DELETE", f"/containers/{identity}", {"force": "1", "v": "1"},
                     good=(200, 204, 404, 409))

    def create_volume(self, name, labels):
        self.request("POST", "/volumes/create", body={"Name": name, "Labels": labels})

    def remove_volume(self, name):
        self.request("DELETE", f"/volumes/{name}", good=(204, 404))

    def act(self, identity, verb):
        """pause, unpause, kill, stop."""
        self.request("POST", f"/containers/{identity}/{verb}")

    def available(self):
        try:
            return client.call(self.socket, "GET", "/_ping", timeout=5).status == 200
        except OSError:
            return False


def can_restart():
    return bool(os.environ.get("EXECHOST_ENGINE_PID")) and \
        bool(os.environ.get("EXECHOST_ENGINE_RESTART"))


def engine_pid():
    """EXECHOST_ENGINE_PID is a number, or the path of a file that holds it."""
    value = os.environ["EXECHOST_ENGINE_PID"]
    return int(value if value.isdigit() else pathlib.Path(value).read_text(encoding="ascii"))


def is_gone(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return state.rsplit(")", 1)[1].split()[0] == "Z"


def stop_engine(engine):
    pid = engine_pid()
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: is_gone(pid) and not engine.available(), 60, "the engine did not stop")


def start_engine(engine):
    subprocess.run(shlex.split(os.environ["EXECHOST_ENGINE_RESTART"]), check=True,
                   stdin=subprocess.DEVNULL, timeout=120)
    wait_for(engine.available, 60, "the engine did not start")


def wait_for(condition, seconds, text):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise EngineError(text)
        time.sleep(0.1)
