"""The steps that are more than one plain call. Each takes the row and the step."""
import collections
import datetime
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

from . import client, engine, gitrepo, service
from .match import Mismatch, match
from .schema import Violation


def known(step, *keys):
    unknown = set(step) - set(keys) - {"note", "onHost"}
    if unknown:
        raise ValueError(f"unknown keys of a step: {sorted(unknown)}")


def poll(row, within_ms, attempt):
    """Tries until it succeeds; the last failure counts once the time is over."""
    from .row import Failure
    deadline = time.monotonic() + within_ms / 1000 * row.world.slow
    while True:
        try:
            return attempt()
        except (Mismatch, Violation, Failure) as error:
            if time.monotonic() > deadline:
                raise Failure(f"after {within_ms} ms still: {error}") from error
        time.sleep(0.05)


# Sugar over calls.

def provision(row, step):
    """{"provision": {pointer: value}, "remove": […], "as": "e", "expect"?, "query"?, "save"?}"""
    known(step, "provision", "remove", "as", "expect", "query", "save", "headers", "template")
    call = {"call": "POST /v1/executions", "template": step.get("template", "execution"),
            "set": step["provision"], "remove": step.get("remove"),
            "expect": step.get("expect", {"status": 201, "json": {"state": "provisioned"}}),
            "save": {step.get("as", "e"): "/executionId", **step.get("save", {})}
            if "expect" not in step else step.get("save", {})}
    for key in ("query", "headers"):
        if key in step:
            call[key] = step[key]
    row.call_step(call)


def execute(row, step):
    """{"exec": [argv] | "sh": script, "in": "${e}", "with": {more of the body}, stdout?, stderr?,
    exitCode?, reason?, json?, status?…}: a command that is expected to be answered 201."""
    known(step, "exec", "sh", "in", "with", "stdout", "stderr", "exitCode", "reason", "json",
          "expect", "save", "query", "headers")
    argv = step.get("exec") or ["/bin/sh", "-c", step["sh"]]
    body = {"command": argv[0], "args": argv[1:], **step.get("with", {})}
    reason = step.get("reason", "exited")
    wanted = {"termination": {"reason": reason}, **step.get("json", {})}
    if reason == "exited":
        wanted.setdefault("state", "exited")
        wanted["exitCode"] = step.get("exitCode", 0)
    elif "exitCode" in step:
        wanted["exitCode"] = step["exitCode"]
    for key in ("stdout", "stderr"):
        if key in step:
            wanted[key] = step[key]
    call = {"call": f"POST /v1/executions/{step.get('in', '${e}')}/commands", "json": body,
            "expect": step.get("expect", {"status": 201, "json": wanted}),
            "save": step.get("save", {})}
    for key in ("query", "headers"):
        if key in step:
            call[key] = step[key]
    row.call_step(call)


def terminate(row, step):
    known(step, "terminate", "expect", "headers")
    row.call_step({"call": f"DELETE /v1/executions/{step['terminate']}",
                   "headers": step.get("headers", {}),
                   "expect": step.get("expect", {"status": 204})})


# Control.

def parallel(row, step):
    """{"parallel": [[steps], [steps]…]}"""
    known(step, "parallel")
    threads = [start_thread(row, steps) for steps in step["parallel"]]
    finish_threads(threads)


def start_thread(row, steps):
    errors = []

    def work():
        try:
            row.steps(steps)
        except Exception as error:  # handed to the thread that joins
            errors.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, errors


def finish_threads(threads):
    from .row import Failure
    for thread, errors in threads:
        thread.join(300)
        if thread.is_alive():
            raise Failure("a parallel group does not end")
        if errors:
            raise Failure(errors[0])


def background(row, step):
    """{"background": "name", "steps": […]}: ends with {"join": "name"} or with the row."""
    known(step, "background", "steps")
    row.background[step["background"]] = start_thread(row, step["steps"])


def join(row, step):
    known(step, "join")
    row.join(step["join"])


def race(row, step):
    """{"race": 8, "step": {call…}, "statuses": {"201": 1, "409": 7}}: all at once. `${i}` differs.
    A count may be a [low, high] pair."""
    known(step, "race", "step", "statuses")
    barrier = threading.Barrier(step["race"])
    statuses = collections.Counter()
    errors = []

    def work(index):
        item = json.loads(json.dumps(step["step"]).replace("${i}", str(index)))
        item["expect"] = {"status": [int(status) for status in step["statuses"]]}
        barrier.wait()
        try:
            answer = row.call_once(item)
            with row.lock:
                statuses[str(answer.status)] += 1
        except Exception as error:  # reported below, by the thread that owns the row
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(step["race"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise Mismatch(errors[0])
    for status, count in step["statuses"].items():
        low, high = count if isinstance(count, list) else (count, count)
        if not low <= statuses[status] <= high:
            raise Mismatch(f"expected {step['statuses']}, got {dict(statuses)}")


def do_step(row, step):
    """{"do": "${step}"}: a step that a case brings along."""
    known(step, "do")
    row.step(row.fill(row.fill(step["do"])))


def try_step(row, step):
    """{"try": step}: whatever comes of it, a broken connection included."""
    known(step, "try")
    try:
        row.step(step["try"])
    except Exception:  # the steps that follow say what must have come of it
        pass


def sleep(row, step):
    known(step, "sleep")
    time.sleep(step["sleep"] / 1000)


def repeat_steps(row, step):
    """{"times": N, "steps": […]}, `${i}` counts from 0."""
    known(step, "times", "steps")
    for index in range(step["times"]):
        row.set("i", index)
        row.steps(step["steps"])


def assertion(row, step):
    """{"assert": value, "matches": matcher}"""
    known(step, "assert", "matches")
    match(row.fill(step["matches"]), row.fill(step["assert"]))


def time_difference(row, step):
    """{"timeFrom": t, "timeTo": t, "ms": matcher}"""
    known(step, "timeFrom", "timeTo", "ms")
    first, second = (parse_time(row.fill(step[key])) for key in ("timeFrom", "timeTo"))
    match(row.fill(step["ms"]), round((second - first) * 1000))


def parse_time(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


def set_time(row, step):
    """{"timeAs": name, "inMs": N}: now plus N as the service writes times."""
    known(step, "timeAs", "inMs", "from")
    base = parse_time(row.fill(step["from"])) if "from" in step else time.time()
    moment = datetime.datetime.fromtimestamp(base + step["inMs"] / 1000, datetime.timezone.utc)
    row.set(step["timeAs"], moment.strftime("%Y-%m-%dT%H:%M:%S.") +
            f"{moment.microsecond // 1000:03d}Z")


# The service and its binary.

def service_action(row, step):
    """{"service": "kill" | "stop" | "start" | "restart" | "terminate" | "exits" | "config"}"""
    known(step, "service", "config", "withinMs")
    verb = step["service"]
    if verb == "kill":
        row.service.kill()
    elif verb == "stop":
        row.service.stop()
    elif verb == "terminate":
        row.service.signal(signal.SIGTERM)
    elif verb == "exits":
        code = row.service.wait(step.get("withinMs", 60000) / 1000)
        match(0, code, "exit status")
    elif verb == "config":
        row.service.write_config(row.world.service_config(step["config"], row.variables))
    elif verb in ("start", "restart"):
        if verb == "restart":
            row.service.stop()
        row.service.start()
        answer = client.call(row.service.address, "GET", "/v1/host")
        row.set("instance", answer.json()["instanceId"])
    else:
        raise ValueError(f"unknown service action {verb}")


def run_binary(row, step):
    """{"binary": [arguments], "exit": matcher, "stdout"?: matcher, "stderr"?: matcher,
    "config"?: {…} written to ${tmp}/c.json, "saveStdout"?: name}"""
    known(step, "binary", "exit", "stdout", "stderr", "config", "saveStdout", "timeout", "rawConfig")
    if "config" in step:
        config = row.world.service_config(step["config"], row.variables)
        (row.directory / "c.json").write_text(json.dumps(config), encoding="utf-8")
    if "rawConfig" in step:
        (row.directory / "c.json").write_text(row.fill(step["rawConfig"]), encoding="utf-8")
    try:
        code, output, errors = service.run_binary(
            row.world.binary, row.fill(step["binary"]), row.directory, step.get("timeout", 30))
    except subprocess.TimeoutExpired as error:
        raise Mismatch("the binary does not end") from error
    found = {"exit": code, "stdout": output, "stderr": errors}
    match({key: row.fill(step[key]) for key in found if key in step}, found)
    if service.SANITIZER.search(errors):
        raise Mismatch(f"sanitizer: {errors[:2000]}")
    if "saveStdout" in step:
        row.set(step["saveStdout"], output.strip())


def second_service(row, step):
    """{"secondService": [steps]}: the steps see another service with a data directory of its own."""
    known(step, "secondService")
    first, instance = row.service, row.variables["instance"]
    config = row.world.service_config(row.own.get("config"), row.variables)
    row.service = service.Service(row.world.binary, row.directory / "second", config)
    try:
        row.service.start()
        row.steps(step["secondService"])
        row.service.stop()
    finally:
        row.service.kill()
        row.service = first
        row.set("instance", instance)


def unix_service(row, step):
    """{"unixService": path, "steps": […]}: the row's service listens on a unix socket."""
    known(step, "unixService", "steps")
    path = row.fill(step["unixService"])
    row.service.listen = f"unix:{path}"
    row.service.start(wait=False)
    engine.wait_for(lambda: pathlib.Path(path).exists(), 30, f"{path} does not appear")
    row.steps(step["steps"])
    row.service.stop()


def memory(row, step):
    """{"memoryAs": name, "notAbove"?: bytes, "plus"?: bytes}: resident bytes of the service."""
    known(step, "memoryAs", "notAbove", "plus")
    value = row.service.resident_bytes()
    row.set(step["memoryAs"], value)
    if "notAbove" in step:
        match({"$range": [0, row.fill(step["notAbove"]) + step.get("plus", 0)]}, value, "resident")


def raw_http(row, step):
    """{"raw": text, "status": matcher, "closed"?: bool, "contains"?: matcher}: bytes as they are,
    latin-1, `${address}` is host:port."""
    known(step, "raw", "status", "closed", "text")
    host, port = row.service.address
    row.set("address", f"{host}:{port}")
    status, received, closed = client.raw(row.service.address,
                                          row.fill(step["raw"]).encode("latin-1"))
    match({"status": row.fill(step["status"])}, {"status": status})
    if "closed" in step:
        match(step["closed"], closed, "closed")
    if "text" in step:
        match(row.fill(step["text"]), received.decode("latin-1"), "text")


def slow_body(row, step):
    """{"halfBody": "POST /path", "declared": N, "sent": N, "status": S, "maxMs": T}: declares a
    body, sends a part of it, and wants the answer without the rest."""
    known(step, "halfBody", "declared", "sent", "status", "maxMs")
    host, port = row.service.address
    head = (f"{row.fill(step['halfBody'])} HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {step['declared']}\r\n\r\n")
    started = time.monotonic()
    status, _, _ = client.raw(row.service.address, head.encode() + b" " * step["sent"])
    match({"status": step["status"]}, {"status": status})
    match({"$range": [0, step.get("maxMs", 10000)]}, (time.monotonic() - started) * 1000, "ms")


def proxy_action(row, step):
    """{"proxy": "cut" | "restore" | [rules]}"""
    known(step, "proxy")
    verb = step["proxy"]
    if verb == "cut":
        row.proxy.cut()
    elif verb == "restore":
        row.proxy.restore()
    else:
        row.proxy.set_rules(row.fill(verb))


# The engine.

def engine_action(row, step):
    """{"engine": verb, …}, see ENGINE_VERBS."""
    ENGINE_VERBS[step["engine"]](row, row.world.engine, {
        key: row.fill(value) for key, value in step.items() if key != "within"}
        if "within" not in step else {key: row.fill(value) for key, value in step.items()})


def engine_inspect(row, eng, step):
    """The container of an execution as the engine shows it."""
    known(step, "engine", "execution", "matches", "save", "instance")
    found = eng.of_execution(step.get("instance", row.variables["instance"]), step["execution"])
    if len(found) != 1:
        raise Mismatch(f"expected one container of {step['execution']}, found {len(found)}")
    details = eng.inspect(found[0]["Id"])
    match(step.get("matches", {}), details)
    for name, pointer in step.get("save", {}).items():
        from .values import pointer_get
        row.set(name, pointer_get(details, pointer))


def engine_gone(row, eng, step):
    """Neither container nor volume of the execution is left, now."""
    known(step, "engine", "execution", "within", "instance")

    def attempt():
        left = eng.left_of(step.get("instance", row.variables["instance"]), step["execution"])
        if left:
            raise Mismatch(f"left: {left}")
    poll(row, step.get("within", 0), attempt)


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
    found = eng.of_execution(step.get("instance", row.variables["instance"]), step["execution"])
    for item in found:
        if step["verb"] == "remove":
            eng.remove(item["Id"])
        else:
            eng.act(item["Id"], step["verb"])


def engine_stop(row, eng, step):
    known(step, "engine")
    row.undo.append(lambda: eng.available() or engine.start_engine(eng))
    engine.stop_engine(eng)


def engine_start(row, eng, step):
    known(step, "engine")
    engine.start_engine(eng)


ENGINE_VERBS = {
    "inspect": engine_inspect, "gone": engine_gone, "none": engine_none,
    "foreign": engine_foreign, "exists": engine_exists, "missing": engine_missing,
    "act": engine_act, "stop": engine_stop, "start": engine_start,
}


# Files and repositories of this machine.

def make_repository(row, step):
    """{"git": {…, see gitrepo.build}, "name": "repo", "as": "commit"}; the path is ${repo.NAME}."""
    known(step, "git", "name", "as", "outside")
    name = step["name"]
    parent = row.directory if step.get("outside") else row.world.git_root
    path = parent / f"{name}-{row.variables['u']}"
    row.set(f"repo.{name}", str(path))
    row.set(step.get("as", "commit"), gitrepo.build(path, row.fill(step["git"])))


def file_action(row, step):
    """{"file": path, "write"|"mkdir"|"link"|"absent"|"exists"|"json"|"flip"|"truncate"|"append"|
    "mode"|"edit"|"text"}"""
    known(step, "file", "write", "mkdir", "link", "absent", "exists", "json", "flip", "truncate",
          "append", "mode", "edit", "text", "removeFile", "saveJson", "size")
    path = pathlib.Path(row.fill(step["file"]))
    for key, function in FILE_VERBS.items():
        if key in step:
            function(row, path, row.fill(step[key]))


def file_write(_row, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


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
    from .values import pointer_set
    value = json.loads(path.read_text(encoding="utf-8"))
    for pointer, item in changes.items():
        pointer_set(value, pointer, item)
    path.write_text(json.dumps(value), encoding="utf-8")


FILE_VERBS = {
    "write": file_write, "absent": file_absent, "exists": file_exists, "flip": file_flip,
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


ACTIONS = {
    "provision": provision, "exec": execute, "sh": execute, "terminate": terminate,
    "parallel": parallel, "background": background, "join": join, "race": race, "sleep": sleep,
    "times": repeat_steps, "do": do_step, "try": try_step,
    "secondService": second_service, "unixService": unix_service, "memoryAs": memory, "assert": assertion, "timeFrom": time_difference, "timeAs": set_time,
    "service": service_action, "binary": run_binary, "raw": raw_http, "halfBody": slow_body,
    "proxy": proxy_action, "engine": engine_action, "git": make_repository, "file": file_action,
}
