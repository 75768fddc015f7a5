"""One service that is to fail at one place, from its first start to the proof that nothing is left."""
import collections
import json
import pathlib
import shutil
import signal
import time
import uuid

from lib import client, gitrepo, native, node, service
from lib.engine import Engine

from agreement import Agreement, check_rows, check_stopped
from life import Died, Life, Strange
from sharing import CUT_AT, PHASES, Place, SharedAgreement, SharingLife, bucket_of

HANG_SECONDS = 3
SETTLE_SECONDS = 120


class Setting:
    """What the cases of one host share: images, a repository, the engine, a bucket of `store`."""

    def __init__(self, options, host, directory, store=None):
        directory.mkdir(parents=True)
        self.binary = pathlib.Path(options.binary).resolve()
        if not service.has_fault_points(self.binary):
            raise SystemExit(f"{self.binary} has no fault points")
        self.host = host
        self.directory = directory
        self.images = json.loads(pathlib.Path(options.images).read_text(encoding="utf-8"))
        self.engine = Engine()
        self.node = node.find()
        self.store = str(directory / "images")
        repositories = directory / "repositories"
        repositories.mkdir()
        gitrepo.build(repositories / "r", {"files": {"f": "text\n", "d/g": "more\n"}})
        self.life = {"host": host, "image": self.images["base"]["id"], "programs": bool(self.node),
                     "repository": str(repositories / "r")}
        self.config = {"defaultHost": host, "native": {"images": self.store}, "gitRoots": {"default": [str(repositories)]},
                       "ptc": {"node": self.node, "poolSize": 1} if self.node else {}}
        if host == "native":
            path = directory / "config.json"
            path.write_text(json.dumps(self.config), encoding="utf-8")
            native.import_images(self.binary, {"base": self.images["base"]}, path, directory)

        self.object_store = store
        self.bucket = bucket_of(store) if store else None

    def phases(self):
        return ("life", "recovery") + (PHASES if self.bucket else ())

    def config_of(self, place):
        """A service that shares runs no programs, whose points others meet."""
        if not place:
            return self.config
        return {**self.config, "ptc": {}, "sharedStore": place.settings(self.directory)}

    def close(self):
        if self.bucket:
            self.bucket.clear()


class Case:
    """`point` is (host, phase, name); `action` None only lives. In `recovery` it is the second start
    that fails, over what a killed life has left. `sharing` is a life with a shared store, `resuming`
    its second start, over an upload that was cut."""

    def __init__(self, setting, point, nth, action):
        self.setting = setting
        self.point = point
        self.phase = point[1]
        self.nth = nth
        self.action = action
        self.directory = setting.directory / uuid.uuid4().hex[:8]
        self.points = self.directory / "points"
        self.service = None
        self.life = None
        self.instance = None
        self.place = Place(setting.object_store, setting.bucket) if self.phase in PHASES else None

    def __str__(self):
        return f"{' '.join(self.point)}:{self.nth}:{self.action}" if self.action else \
            f"{' '.join(self.point[:2])} without a fault"

    # --- the service ---

    def gone(self):
        return self.service.process is None or self.service.process.poll() is not None

    def call(self, method, path, headers, body):
        timeout = HANG_SECONDS if self.action == "hang" and self.points.exists() else 60
        try:
            return client.call(self.service.address, method, path, headers, body, timeout)
        except (OSError, ValueError, EOFError, client.http.client.HTTPException):
            time.sleep(0.02)  # whoever dies may not be dead yet
            return None

    def start_with_fault(self):
        """False where it does not come to listen."""
        faults = f"{self.point[2]}:{self.nth}:{self.action}" if self.action else None
        try:
            self.service.start(faults=faults, points=self.points)
            return True
        except service.ServiceError:
            if self.action is None:
                raise
            self.service.kill()
            return False

    def look_for_instance(self):
        answer = self.call("GET", "/v1/host", {}, None)
        self.instance = answer.json()["instanceId"] if answer else self.instance

    def was_reached(self):
        lines = self.points.read_text(encoding="ascii").split("\n") if self.points.exists() else []
        return lines.count(self.point[2]) >= self.nth

    # --- what happens ---

    def prepare(self):
        self.directory.mkdir()
        self.service = service.Service(self.setting.binary, self.directory / "s",
                                       self.setting.config_of(self.place))
        self.life = (SharingLife if self.place else Life)(self.call, self.gone, self.setting.life)
        if self.phase == "recovery":
            self.service.start()
            self.look_for_instance()
            self.life.live()
            self.service.kill()
        elif self.phase == "resuming":
            self.be_cut()

    def be_cut(self):
        self.service.start(faults=CUT_AT)
        self.look_for_instance()
        try:
            self.life.live()
            raise Strange("it was not killed in an upload")
        except Died:
            self.service.kill()

    def live(self):
        """The part with the fault; it may end in the death of the service at any place."""
        if not self.start_with_fault():
            return
        try:
            self.look_for_instance()
            if self.phase in ("life", "sharing"):
                self.life.live()
            self.settle()
            self.life.end()
        except Died:
            pass

    def settle(self):
        """What goes on by itself after a start, or after the last answer."""
        agreement = Agreement(self.call, self.life, True)
        deadline = time.monotonic() + HANG_SECONDS
        while not agreement.ready() and time.monotonic() < deadline and not self.gone():
            time.sleep(0.05)
        self.life.settle(HANG_SECONDS if self.action == "hang" else SETTLE_SECONDS)

    def stop(self):
        """Killed where it hung or was to be killed, otherwise ended in good order."""
        if self.gone() and self.service.process is not None:
            code = self.service.process.returncode
            self.service.process = None
            if self.action != "kill" or code != -9:
                self.service.check_errors()
                # That a write is refused at the start may end the start.
                if self.action in ("kill", "hang") or code < 0:
                    raise Strange(f"it ended with {code}: {self.service.last_errors()}")
        elif self.action == "kill" and not self.was_reached():
            self.meet_in_end()
        elif self.action in ("kill", "hang"):
            self.service.kill()
        else:
            self.service.stop()
        self.service.check_errors()

    def meet_in_end(self):
        """Some points are passed only when a service ends in good order."""
        self.service.signal(signal.SIGTERM)
        code = self.service.wait()
        if code not in (0, -signal.SIGKILL):
            raise Strange(f"it ended with {code}: {self.service.last_errors()}")

    def check(self):
        self.service.start()
        self.look_for_instance()
        agreement = Agreement(self.call, self.life, self.action in (None, "kill"))
        agreement.check_acknowledged()
        if self.place:
            SharedAgreement(agreement, self.place).check()
        agreement.check_works()
        agreement.end_all()
        agreement.check_host(self.setting.engine, self.instance, self.service.data)
        agreement.check_directories(self.service.data)
        self.service.stop()
        check_rows(self.service.data)
        check_stopped(self.service.data, self.instance, self.setting.engine, self.setting.host)

    def run(self):
        """Whether its point was reached; raises what went wrong."""
        self.prepare()
        self.live()
        self.stop()
        self.check()
        reached = self.was_reached()
        if self.place:
            self.place.clear()
        shutil.rmtree(self.directory)
        return reached

    def count(self):
        """A life without a fault: how often each point is passed."""
        self.prepare()
        self.live()
        if self.life.refused:
            raise Strange(f"refused without a fault: {self.life.refused}")
        self.stop()
        self.check()
        lines = self.points.read_text(encoding="ascii").split()
        return collections.Counter(lines)

    def give_up(self):
        """Takes away what a failed case has left; its directory stays."""
        if self.service:
            self.service.kill()
        if self.setting.host == "native" and self.instance:
            native.take_away(self.instance, self.service.data)
        if self.setting.host == "docker" and self.instance:
            for item in self.setting.engine.containers([f"exechost.instance={self.instance}"]):
                self.setting.engine.remove(item["Id"])
            for item in self.setting.engine.volumes([f"exechost.instance={self.instance}"]):
                self.setting.engine.remove_volume(item["Name"])
