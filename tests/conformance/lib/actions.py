"""The steps that are more than one plain call. Each takes the row and the step."""
import collections
import datetime
import http.client
import json
import pathlib
import re
import signal
import subprocess
import threading
import time

from . import client, engine, service
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
    known(step, "provision", "remove", "as", "expect", "query", "save", "headers", "template",
          "within")
    call = {"call": "POST /v1/executions", "template": step.get("template", "execution"),
            "set": step["provision"], "remove": step.get("remove"),
            "expect": step.get("expect", {"status": 201, "json": {"state": "provisioned"}}),
            "save": {step.get("as", "e"): "/executionId", **step.get("save", {})}
            if "expect" not in step else step.get("save", {})}
    for key in ("query", "headers", "within"):
        if key in step:
            call[key] = step[key]
    row.call_step(call)


def execute(row, step):
    """{"exec": [argv] | "sh": script, "in": "${e}", "with": {more of the body}, stdout?, stderr?,
    exitCode?, reason?, json?, status?…}: a command that is expected to be answered 201."""
    known(step, "exec", "sh", "in", "with", "stdout", "stderr", "exitCode", "reason", "json",
          "expect", "save", "query", "headers")
    argv = row.fill(step["exec"]) if "exec" in step else ["/bin/sh", "-c", step["sh"]]
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
    """{"race": 8, "step": {call…}, "statuses": {"201": 1, "409": 7}}: all at once. `${i}`
    differs. A count may be a [low, high] pair. `identical`: all bodies are the same bytes."""
    known(step, "race", "step", "statuses", "identical")
    wanted = row.fill(step["statuses"])
    barrier = threading.Barrier(step["race"])
    statuses = collections.Counter()
    bodies = set()
    errors = []

    def work(index):
        item = json.loads(json.dumps(step["step"]).replace("${i}", str(index)))
        item["expect"] = {"status": [int(status) for status in wanted]}
        barrier.wait()
        try:
            answer = row.call_once(item)
            with row.lock:
                statuses[str(answer.status)] += 1
                bodies.add(answer.body)
        except Exception as error:  # reported below, by the thread that owns the row
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(step["race"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise Mismatch(errors[0])
    for status, count in wanted.items():
        low, high = count if isinstance(count, list) else (count, count)
        if not low <= statuses[status] <= high:
            raise Mismatch(f"expected {wanted}, got {dict(statuses)}")
    if step.get("identical") and len(bodies) != 1:
        raise Mismatch(f"{len(bodies)} different bodies: {sorted(bodies)[:2]}")


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
    time.sleep(row.fill(step["sleep"]) / 1000)


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
    """{"service": "kill" | "died" | "stop" | "start" | "restart" | "terminate" | "exits" | "config"};
    `faults` of a start are the fault points it is armed with, `died` waits for the kill of one."""
    known(step, "service", "config", "withinMs", "faults")
    verb = row.fill(step["service"])
    if verb == "kill":
        row.service.kill()
    elif verb == "died":
        match(-signal.SIGKILL, row.service.wait(step.get("withinMs", 60000) / 1000), "exit status")
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
        row.service.start(faults=row.fill(step.get("faults")))
        answer = client.call(row.service.address, "GET", "/v1/host", row.authorization())
        row.set("instance", answer.json()["instanceId"])
    else:
        raise ValueError(f"unknown service action {verb}")


def run_binary(row, step):
    """{"binary": [arguments], "exit": matcher, "stdout"?: matcher, "stderr"?: matcher,
    "config"?: {…} written to ${tmp}/c.json, "saveStdout"?: name}"""
    known(step, "binary", "exit", "stdout", "stderr", "config", "saveStdout", "timeout",
          "rawConfig")
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
    """{"secondService": [steps]}: the steps see another service with its own data directory."""
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


def operations(row, step):
    """{"operations": "closed" | "public", "methods"?: [names], "except"?: [paths], "headers",
    "expect"}: a call of every operation of the document that needs a token, or that needs none, with
    "x" for each parameter of its path and no body."""
    known(step, "operations", "methods", "except", "headers", "expect")
    asked = 0
    for path, item in row.world.document.document["paths"].items():
        for method, operation in item.items():
            if method not in ("get", "post", "put", "patch", "delete") or \
                    method not in step.get("methods", [method]) or \
                    path in step.get("except", []) or \
                    (operation.get("security") == []) != (step["operations"] == "public"):
                continue
            asked += 1
            target = re.sub(r"\{[^}]+\}", "x", path)
            row.call_step({"call": f"{method.upper()} {target}", "headers": step["headers"],
                           "expect": step["expect"]})
    match({"$range": [1, 1000]}, asked, "operations")


def slow_read(row, step):
    """{"slowRead": "GET /path", "pauseMs": N, "bytes": matcher}: asks, reads nothing for a while,
    then all of the body, whose length must match."""
    known(step, "slowRead", "pauseMs", "bytes")
    method, target = row.fill(step["slowRead"]).split(" ", 1)
    connection = http.client.HTTPConnection(*row.service.address, timeout=60)
    try:
        connection.request(method, target)
        time.sleep(step["pauseMs"] / 1000)
        length = len(connection.getresponse().read())
    except http.client.IncompleteRead as error:
        raise Mismatch(f"cut after {len(error.partial)} bytes") from error
    finally:
        connection.close()
    match(row.fill(step["bytes"]), length, "bytes")


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


ACTIONS = {
    "provision": provision, "exec": execute, "sh": execute, "terminate": terminate,
    "parallel": parallel, "background": background, "join": join, "race": race, "sleep": sleep,
    "times": repeat_steps, "do": do_step, "try": try_step, "assert": assertion,
    "timeFrom": time_difference, "timeAs": set_time, "service": service_action,
    "secondService": second_service, "unixService": unix_service, "memoryAs": memory,
    "binary": run_binary, "raw": raw_http, "halfBody": slow_body, "slowRead": slow_read, "proxy": proxy_action,
    "operations": operations,
}
