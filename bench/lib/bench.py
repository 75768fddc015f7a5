"""What the rows share: binaries, image, engine, a service of their own, and where they may write."""
import itertools
import os
import tempfile

from lib.engine import Engine
from lib.recorder import Recorder
from lib.service import Service


class Bench:
    def __init__(self, build, image, engine_socket, samples):
        self.binary = str(build / "exechost")
        self.constant = str(build / "bench_constant")
        self.image = image
        self.engine_socket = engine_socket
        self.samples = samples
        self.directory = tempfile.TemporaryDirectory(prefix="exechost-bench-")
        self.engine = Engine(engine_socket)
        self.numbers = itertools.count(1)
        self.recorded = None

    def path(self, name):
        return os.path.join(self.directory.name, f"{next(self.numbers)}-{name}")

    def service(self, engine_socket=None):
        return Service(self.binary, self.image, self.path("service"),
                       engine_socket or self.engine_socket)

    def container_name(self):
        """For a baseline container; nobody else's."""
        return f"{os.path.basename(self.directory.name)}-{next(self.numbers)}"

    def bodies(self):
        """The create body and the exec body that the service posts: recorded once, from a service
        that is not the measured one, so that the baseline's containers bear no label of the latter."""
        if self.recorded is None:
            path = self.path("engine.sock")
            recorder = Recorder(path, self.engine_socket)
            service = self.service(path)
            try:
                service.execute(service.provision(), "true")
                self.recorded = (recorder.bodies("/containers/create")[-1],
                                 recorder.bodies("/exec")[-1])
            finally:
                service.stop()
                recorder.stop()
        return self.recorded

    def done(self):
        self.engine.done()
        self.directory.cleanup()
