"""The engine's own calls over its socket: the baseline."""
from lib.wire import Connection, WireError, read_upgraded


class Engine:
    """Remembers the containers it has made; `done` removes those that are left."""

    def __init__(self, socket_path):
        self.socket_path = socket_path
        self.connection = Connection(socket_path)
        self.made = set()
        version = self.connection.call("GET", "/version")
        self.prefix = f"/v{version['ApiVersion']}"
        self.version = version["Version"]

    def provision(self, name, body):
        """Create and start. Returns the container's id."""
        made = self.connection.call("POST", f"{self.prefix}/containers/create?name={name}", body)
        self.made.add(made["Id"])
        self.connection.call("POST", f"{self.prefix}/containers/{made['Id']}/start")
        return made["Id"]

    def remove(self, container):
        self.connection.call("DELETE", f"{self.prefix}/containers/{container}?force=1&v=1")
        self.made.discard(container)

    def execute(self, container, user, command):
        """Exec create, start (read to its end) and inspect. Returns (exit code, bytes read)."""
        body = {"AttachStdin": False, "AttachStdout": True, "AttachStderr": True, "Tty": False,
                "User": user, "WorkingDir": "/workspace", "Cmd": command}
        made = self.connection.call("POST", f"{self.prefix}/containers/{container}/exec", body)
        size = read_upgraded(self.socket_path, f"{self.prefix}/exec/{made['Id']}/start",
                             {"Detach": False, "Tty": False})
        end = self.connection.call("GET", f"{self.prefix}/exec/{made['Id']}/json")
        return end["ExitCode"], size

    def find(self, name_part):
        """The ids of the containers whose name contains the text."""
        found = self.connection.call("GET", f"{self.prefix}/containers/json?all=1")
        return [c["Id"] for c in found if any(name_part in name for name in c["Names"])]

    def done(self):
        for container in list(self.made):
            try:
                self.remove(container)
            except (WireError, OSError):
                pass
        self.connection.close()
