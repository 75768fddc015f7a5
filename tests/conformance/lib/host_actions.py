"""The steps that touch the engine, repositories and files of this machine."""
import hashlib
import io
import json
import os
import pathlib
import socket
import tarfile

from . import engine, gitrepo, native
from .actions import known, poll
from .match import Mismatch, match
from .values import pointer_get, pointer_set


# The engine.

def engine_action(row, step):
    """{"engine": verb, …}, see ENGINE_VERBS."""
    ENGINE_VERBS[step["engine"]](row, row.world.engine, row.fill(step))


def engine_inspect(row, eng, step):
    """The container of an execution as the engine shows it."""
    known(step, "engine", "execution", "matches", "save", "instance")
    found = eng.of_execution(step.get("instance", row.variables["instance"]), step["execution"])
    if len(found) != 1:
        raise Mismatch(f"expected one container of {step['execution']}, found {len(found)}")
    details = eng.inspect(found[0]["Id"])
    match(step.get("matches", {}), details)
    for name, pointer in step.get("save", {}).items():
        row.set(name, pointer_get(details, pointer))


def engine_gone(row, eng, step):
    """Neither container nor volume of the execution is left, now; on the native host neither
    process, control group nor directory."""
    known(step, "engine", "execution", "within", "instance")

    def attempt():
        instance = step.get("instance", row.variables["instance"])
        if row.world.host == "native":
            left = native.left_of(instance, row.variables["data"], step["execution"])
        else:
            left = eng.left_of(instance, step["execution"])
        if left:
            raise Mismatch(f"left: {left}")
    poll(row, step.get("within", 0), attempt)


def engine_there(row, eng, step):
    """The execution is still there, whoever made it."""
    known(step, "engine", "execution", "instance")
    instance = step.get("instance", row.variables["instance"])
    found = list(native.groups_of(instance, step["execution"])) if row.world.host == "native" \
        else eng.of_execution(instance, step["execution"])
    if not found:
        raise Mismatch(f"{step['execution']} of {instance} is gone")


def engine_none(row, eng, step):
    """Nothing of the instance is left."""
    known(step, "engine", "within")

    def attempt():
        left = eng.left_of(row.variables["instance"])
        if left:
            raise Mismatch(f"left: {left}")
    poll(row, step.get("within", 0), attempt)


def engine_foreign(row, eng, step):
    """A container that the service did not make. `volume` makes a volume instead."""
    known(step, "engine", "name", "labels", "running", "volume", "as")
    if step.get("volume"):
        eng.create_volume(step["name"], step.get("labels", {}))
        row.undo.append(lambda: eng.remove_volume(step["name"]))
        return
    identity = eng.create_foreign(step["name"], row.variables["image.base"],
                                  step.get("labels", {}), step.get("running", True))
    row.undo.append(lambda: eng.remove(identity))
    row.set(step.get("as", "foreign"), identity)


def engine_exists(row, eng, step):
    """The container of that name or id is there."""
    known(step, "engine", "name", "matches")
    match(step.get("matches", {}), eng.inspect(step["name"]))


def engine_missing(row, eng, step):
    known(step, "engine", "name", "within")

    def attempt():
        try:
            eng.inspect(step["name"])
        except engine.EngineError:
            return
        raise Mismatch(f"{step['name']} is still there")
    poll(row, step.get("within", 0), attempt)


def engine_act(row, eng, step):
    """pause, unpause or kill the container of an execution, behind the service's back."""
    known(step, "engine", "execution", "verb", "instance")
    if row.world.host == "native":
        native.act(step.get("instance", row.variables["instance"]), row.variables["data"],
                   step["execution"], step["verb"])
        return
    found = eng.of_execution(step.get("instance", row.variables["instance"]), step["execution"])
    for item in found:
        if step["verb"] == "remove":
            eng.remove(item["Id"])
        else:
            eng.act(item["Id"], step["verb"])


def engine_paused(row, eng, step):
    known(step, "engine", "execution", "is")
    instance = row.variables["instance"]
    if row.world.host == "native":
        paused = native.is_paused(instance, step["execution"])
    else:
        found = eng.of_execution(instance, step["execution"])
        paused = any(eng.inspect(item["Id"])["State"]["Paused"] for item in found)
    match(step["is"], paused, "paused")


def engine_limits(row, _eng, step):
    """What the kernel has for an execution of the native host."""
    known(step, "engine", "execution", "matches")
    match(step["matches"], native.limits_of(row.variables["instance"], step["execution"]))


def engine_stop(row, eng, step):
    known(step, "engine")
    row.undo.append(lambda: eng.available() or engine.start_engine(eng))
    engine.stop_engine(eng)


def engine_start(row, eng, step):
    known(step, "engine")
    engine.start_engine(eng)


def engine_export(_row, eng, step):
    """An image of the engine as the archive that `docker save` writes."""
    known(step, "engine", "image", "to")
    pathlib.Path(step["to"]).write_bytes(eng.export(step["image"]))


ENGINE_VERBS = {
    "export": engine_export,
    "inspect": engine_inspect, "gone": engine_gone, "there": engine_there, "none": engine_none,
    "foreign": engine_foreign, "exists": engine_exists, "missing": engine_missing,
    "act": engine_act, "paused": engine_paused, "limits": engine_limits, "stop": engine_stop, "start": engine_start,
}


# Files and repositories of this machine.

def make_repository(row, step):
    """{"git": {…, see gitrepo.build}, "name": "repo", "as": "commit"}, found at ${repo.NAME}."""
    known(step, "git", "name", "as", "outside")
    name = step["name"]
    parent = row.directory if step.get("outside") else row.world.git_root
    path = parent / f"{name}-{row.variables['u']}"
    row.set(f"repo.{name}", str(path))
    row.set(step.get("as", "commit"), gitrepo.build(path, row.fill(step["git"])))


def file_action(row, step):
    """{"file": path, "write"|"mkdir"|"link"|"absent"|"exists"|"json"|"flip"|"truncate"|"append"|
    "mode"|"edit"|"text"|"fifo"|"sha256"|"same"|"members"|"retar"|"fill"|"list"|"chmod"}"""
    known(step, "file", "write", "mkdir", "link", "absent", "exists", "json", "flip", "truncate",
          "append", "mode", "edit", "text", "removeFile", "saveJson", "size", "fifo", "sha256",
          "same", "members", "retar", "fill", "list", "chmod")
    path = pathlib.Path(row.fill(step["file"]))
    for key, function in FILE_VERBS.items():
        if key in step:
            function(row, path, row.fill(step[key]))


def file_write(_row, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def file_chmod(_row, path, mode):
    path.chmod(int(mode, 8))


def file_fifo(_row, path, _argument):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def file_absent(_row, path, _argument):
    if os.path.lexists(path):
        raise Mismatch(f"{path} exists")


def file_exists(_row, path, _argument):
    if not path.exists():
        raise Mismatch(f"{path} does not exist")


def file_flip(_row, path, offset):
    """One bit of one byte; a negative offset counts from the end."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def file_truncate(_row, path, size):
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)


def file_append(_row, path, text):
    with open(path, "ab") as file:
        file.write(text.encode("latin-1"))


def file_edit(_row, path, changes):
    """{pointer: value} put into a JSON file."""
    value = json.loads(path.read_text(encoding="utf-8"))
    for pointer, item in changes.items():
        pointer_set(value, pointer, item)
    path.write_text(json.dumps(value), encoding="utf-8")


def file_sha256(_row, path, matcher):
    match(matcher, "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest())


def file_same(_row, path, other):
    """The same bytes as another file."""
    if path.read_bytes() != pathlib.Path(other).read_bytes():
        raise Mismatch(f"{path} and {other} differ")


def file_members(_row, path, matcher):
    """The names in a tar, in order."""
    with tarfile.open(path) as tar:
        match(matcher, tar.getnames())


def file_retar(_row, path, members):
    """Writes the tar anew with these members of it, in this order."""
    with tarfile.open(path) as tar:
        found = [(tar.getmember(name), tar.extractfile(name).read()) for name in members]
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for member, content in found:
            tar.addfile(member, io.BytesIO(content))


def file_fill(_row, path, keep):
    """Grows the file until its disk has `keep` bytes left, in pieces of 4 KiB."""
    with open(path, "ab") as file:
        while True:
            disk = os.statvfs(path)
            if disk.f_bavail * disk.f_frsize <= keep:
                return
            try:
                file.write(bytes(4096))
                file.flush()
            except OSError:
                return


def file_list(_row, path, matcher):
    """The names in a directory, sorted."""
    match(matcher, sorted(item.name for item in path.iterdir()))


FILE_VERBS = {
    "sha256": file_sha256, "same": file_same, "members": file_members, "retar": file_retar,
    "fill": file_fill, "list": file_list,
    "fifo": file_fifo,
    "write": file_write, "chmod": file_chmod, "absent": file_absent, "exists": file_exists, "flip": file_flip,
    "truncate": file_truncate, "append": file_append, "edit": file_edit,
    "mkdir": lambda row, path, _: path.mkdir(parents=True, exist_ok=True),
    "link": lambda row, path, target: path.symlink_to(target),
    "json": lambda row, path, matcher: match(
        matcher, json.loads(path.read_text(encoding="utf-8"))),
    "text": lambda row, path, matcher: match(matcher, path.read_text(encoding="utf-8")),
    "mode": lambda row, path, mode: match(mode, f"{path.stat().st_mode & 0o7777:04o}"),
    "size": lambda row, path, matcher: match(matcher, path.stat().st_size),
    "removeFile": lambda row, path, _: path.unlink(),
    "saveJson": lambda row, path, name: row.set(
        name, json.loads(path.read_text(encoding="utf-8"))),
}


# Sockets of this machine.

def listen(row, step):
    """{"listen": "tcp" | "abstract", "as": name}: something of this machine that programs inside
    must not reach; it is reached from here. ${name} is the port or the abstract socket's name."""
    known(step, "listen", "as")
    family = socket.AF_INET if step["listen"] == "tcp" else socket.AF_UNIX
    address = ("127.0.0.1", 0) if family == socket.AF_INET else f"\0exechost-{row.variables['u']}"
    server = socket.socket(family, socket.SOCK_STREAM)
    row.undo.append(server.close)
    server.bind(address)
    server.listen()
    address = server.getsockname()
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.connect(address)
    row.set(step["as"], str(address[1]) if family == socket.AF_INET else address[1:].decode())


ACTIONS = {"engine": engine_action, "git": make_repository, "file": file_action, "listen": listen}
