"""What all rows share: binary, engine, document, images, templates and the shared service."""
import json
import pathlib
import threading
import uuid

from . import gitrepo, native, node
from .engine import Engine
from .schema import Document
from .service import Service
from .values import fill

HERE = pathlib.Path(__file__).resolve().parent.parent


class World:
    def __init__(self, options, directory):
        self.binary = pathlib.Path(options.binary).resolve()
        self.host = options.host
        self.slow = options.slow
        self.directory = pathlib.Path(directory)
        self.git_root = self.directory / "repositories"
        self.git_root.mkdir()
        self.engine = Engine(options.engine_socket)
        self.document = Document()
        self.images = json.loads(pathlib.Path(options.images).read_text(encoding="utf-8"))
        self.templates = json.loads((HERE / "templates.json").read_text(encoding="utf-8"))
        self.config = json.loads((HERE / "config.json").read_text(encoding="utf-8"))
        self.node = node.find()
        if self.node is None:
            self.config["ptc"].pop("node")
        self.lock = threading.Lock()
        self.samples = {}
        self.service = None
        self.bridge = None

    def variables(self):
        known = {"host": self.host, "gitRoot": str(self.git_root),
                 "engineSocket": self.engine.socket, "binary": str(self.binary),
                 "node": self.node or "",
                 "nativeImages": str(self.directory / "images")}
        for name, forms in self.images.items():
            for form, reference in forms.items():
                known[f"image.{name}.{form}"] = reference
            known[f"image.{name}.digest"] = forms["id"].split("@")[1]
            known[f"image.{name}"] = forms["id"] if self.host == "native" else \
                forms.get("registry") or forms["id"]
        return known

    def service_config(self, changes, variables):
        """The common configuration with a row's changes merged over it; null takes a key out."""
        return merged(fill(self.config, variables), fill(changes or {}, variables))

    def start_shared(self):
        directory = self.directory / "shared"
        if self.host == "native":
            self.import_images()
        config = self.service_config({}, {**self.variables(), "tmp": str(directory)})
        self.service = Service(self.binary, directory, config)
        self.service.start()

    def import_images(self):
        path = self.directory / "images.json"
        config = self.service_config({}, {**self.variables(), "tmp": str(self.directory)})
        path.write_text(json.dumps(config), encoding="utf-8")
        native.import_images(self.binary, self.images, path, self.directory)

    def new_row_directory(self):
        path = self.directory / uuid.uuid4().hex[:10]
        path.mkdir()
        return path

    def make_repository(self, name, wanted):
        return gitrepo.build(self.git_root / name, wanted)

    def keep_sample(self, key, schema, value):
        with self.lock:
            self.samples.setdefault(key, (schema, value))


def merged(base, changes):
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result
