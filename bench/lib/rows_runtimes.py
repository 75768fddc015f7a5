"""The native host against the runtimes that engines stand on, and against bubblewrap."""
import json
import os
import shutil
import subprocess

from lib.sampling import WARM_UP, absent, compared, interleaved, timed
from lib.wire import WireError

RUNTIMES = ("runc", "crun")
STEPS = {"provision": ("POST /v1/executions, empty workspace", "run --detach"),
         "exec": ("POST …/commands, `true`", "exec"),
         "terminate": ("DELETE /v1/executions/{id}, all gone at the answer", "delete --force")}
ROWS = (*(f"native-{step}-{runtime}" for runtime in RUNTIMES for step in STEPS), "native-cycle-bwrap")
USER = 65532
OUTSIDE = 390000
CPU_PERIOD = 100000


def tmpfs(where, size, mode="1777"):
    return {"destination": where, "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", f"mode={mode}", f"size={size}"]}


def configuration(name):
    """The floor's isolation and limits, but no filter of system calls, which would cost time."""
    ids = [{"containerID": 0, "hostID": OUTSIDE, "size": 65536}]
    return {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": USER, "gid": USER}, "args": ["/bin/sleep", "3600"],
                    "env": ["PATH=/bin:/usr/bin"], "cwd": "/workspace", "noNewPrivileges": True,
                    "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted")}},
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                   tmpfs("/dev", "65536k", "755"), tmpfs("/dev/shm", "16m"), tmpfs("/tmp", "16m"),
                   tmpfs("/workspace", "64m")],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user")],
            "uidMappings": ids, "gidMappings": ids, "cgroupsPath": f"/{name}",
            "resources": {"memory": {"limit": 256 << 20},
                          "cpu": {"quota": CPU_PERIOD, "period": CPU_PERIOD}, "pids": {"limit": 64}},
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
            "readonlyPaths": ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/sysrq-trigger"]}}


class Runtime:
    """runc or crun, called as a person would call it."""

    def __init__(self, bench, program, root):
        self.program = program
        self.name = bench.container_name()
        self.bundle = bench.path(program)
        self.state = f"{self.bundle}/state"
        shutil.copytree(root, f"{self.bundle}/rootfs", symlinks=True)
        for place in ("workspace", "tmp", "proc", "dev", "dev/shm"):
            os.makedirs(f"{self.bundle}/rootfs/{place}", exist_ok=True)
        with open(f"{self.bundle}/config.json", "w", encoding="utf-8") as file:
            json.dump(configuration(self.name), file)

    def call(self, *arguments):
        # What runs on holds the descriptors, so no pipe may be among them.
        with open(f"{self.bundle}/said", "w+", encoding="utf-8") as said:
            done = subprocess.run([self.program, "--root", self.state, *arguments],
                                  stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
            if done.returncode != 0:
                said.seek(0)
                raise WireError(f"{self.program} {arguments[0]}: {said.read().strip()[-200:]}")

    def run(self):
        self.call("run", "--detach", "--bundle", self.bundle, self.name)

    def execute(self):
        self.call("exec", self.name, "/bin/true")

    def delete(self):
        self.call("delete", "--force", self.name)

    def problem(self):
        """Why it does not run here, or None."""
        if shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        try:
            self.run()
            self.execute()
            return None
        except WireError as problem:
            return " ".join(str(problem).split()).replace("|", "/")
        finally:
            try:
                self.delete()
            except WireError:
                pass  # there may be none


def native_steps(service, figures):
    spent, execution = timed(service.provision)
    figures["provision"].append(spent)
    figures["exec"].append(timed(service.execute, execution, "/bin/true")[0])
    figures["terminate"].append(timed(service.terminate, execution)[0])


def runtime_steps(runtime, figures):
    try:
        figures["provision"].append(timed(runtime.run)[0])
        figures["exec"].append(timed(runtime.execute)[0])
    finally:
        figures["terminate"].append(timed(runtime.delete)[0])


def runtime_rows(bench, service, program):
    runtime = Runtime(bench, program, service.root)
    reason = runtime.problem()
    if reason is not None:
        return [absent(f"native-{step}-{program}", what, reason) for step, (what, _) in STEPS.items()]
    ours, theirs = ({step: [] for step in STEPS} for _ in range(2))
    interleaved(bench.samples, lambda: native_steps(service, ours), lambda: runtime_steps(runtime, theirs))
    return [compared(f"native-{step}-{program}", what, f"`{program} {arguments}`", "ms",
                     (ours[step][WARM_UP:], theirs[step][WARM_UP:]), None)
            for step, (what, arguments) in STEPS.items()]


def bubblewrap_row(bench, service):
    """One program confined and gone again."""
    confined = ["bwrap", "--unshare-all", "--die-with-parent", "--uid", str(USER), "--gid", str(USER),
                "--ro-bind", service.root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
                "/bin/true"]

    def ours():
        figures = {step: [] for step in STEPS}
        native_steps(service, figures)
        return sum(figure for (figure,) in figures.values())

    def theirs():
        done = timed(lambda: subprocess.run(confined, capture_output=True, text=True, check=False))
        if done[1].returncode != 0:
            raise WireError(f"bwrap: {done[1].stderr.strip()}")
        return done[0]

    return compared("native-cycle-bwrap", "provision, exec `true`, terminate",
                    "`bwrap --unshare-all … true`, without limits or filter", "ms",
                    interleaved(bench.samples, ours, theirs), None)


def runtimes(bench):
    service = bench.native_service()
    try:
        return [row for program in RUNTIMES for row in runtime_rows(bench, service, program)] + \
            [bubblewrap_row(bench, service)]
    finally:
        service.stop()
