"""What the rows share: binaries, image, engine, services of their own, and where they may write."""
import glob
import itertools
import os
import pathlib
import subprocess
import tempfile

from lib.engine import Engine
from lib.floor import Floor
from lib.recorder import Recorder
from lib.service import Service
from lib.wire import WireError


class Bench:
    def __init__(self, build, images, engine_socket, samples):
        """`images`: the pinned reference that the engine knows, and the root file system's tar."""
        self.root = build.resolve().parents[1]
        self.binary = str(build / "exechost")
        self.constant = str(build / "bench_constant")
        self.floor_binary = str(build / "bench_floor")
        self.image, self.root_tar = images
        self.engine_socket = engine_socket
        self.samples = samples
        self.directory = tempfile.TemporaryDirectory(prefix="exechost-bench-")
        # Users of sandboxes have to come through to the root file systems below.
        os.chmod(self.directory.name, 0o711)
        self.name = os.path.basename(self.directory.name)
        self.engine = Engine(engine_socket)
        self.numbers = itertools.count(1)

    def own(self):
        """A name of the process that measures: those of another are never met."""
        return f"{os.getpid()}-{next(self.numbers)}"

    def path(self, name):
        return os.path.join(self.directory.name, f"{self.own()}-{name}")

    def memory_path(self):
        """Where files lie in memory, as an execution's do."""
        return pathlib.Path("/dev/shm") / f"{self.name}-{self.own()}"

    def places(self, pid):
        """What a measuring process has written."""
        return [*pathlib.Path(self.directory.name).glob(f"{pid}-*"),
                *pathlib.Path("/dev/shm").glob(f"{self.name}-{pid}-*")]

    def service(self, engine_socket=None):
        return Service(self.binary, self.image, self.path("service"),
                       {"docker": {"socket": engine_socket or self.engine_socket},
                        "defaultHost": "docker"})

    def native_service(self, settings=None):
        """With an image store of its own; `root` is where its image is unpacked."""
        directory = self.path("native")
        done = subprocess.run([self.binary, "image", "import", "--host", "native", "--name", "base",
                               "--data", f"{directory}/data", self.root_tar],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise WireError(f"the image could not be imported: {done.stderr}")
        service = Service(self.binary, done.stdout.split()[-1], directory,
                          {"defaultHost": "native", "docker": {"socket": f"{directory}/none"},
                           **(settings or {})})
        service.root = glob.glob(f"{directory}/data/native/images/*/root")[0]
        return service

    def floor(self, root):
        return Floor(self.floor_binary, root)

    def container_name(self):
        """For a baseline container; nobody else's."""
        return f"{self.name}-{self.own()}"

    def bodies(self):
        """The create body and the exec body that the service posts: recorded once, from a service
        that is not the measured one, so that the baseline's containers bear no label of the latter."""
        path = self.path("engine.sock")
        recorder = Recorder(path, self.engine_socket)
        service = self.service(path)
        try:
            service.execute(service.provision(), "true")
            return recorder.bodies("/containers/create")[-1], recorder.bodies("/exec")[-1]
        finally:
            service.stop()
            recorder.stop()

    def done(self):
        self.engine.done()
        self.directory.cleanup()
