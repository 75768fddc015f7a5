"""The trace of a request, in the lines of the log that tell of what it began: after its answer, from
other threads, behind other work, and not in the lines of what others began."""
import json
import time

from context import Failure

IMAGES = ["base"]
WAIT_SECONDS = 180


def trace(number):
    return f"{number:032x}"


def parent(number):
    return {"traceparent": f"00-{trace(number)}-00f067aa0ba902b7-01"}


def lines(context):
    path = context.service.directory / f"stderr.{context.service.starts}"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def await_line(context, message, number, **fields):
    """One line of that message and these fields, with that trace (None: without any)."""
    wanted = {"message": message, **fields}
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = [line for line in lines(context) if wanted.items() <= line.items()]
        if found:
            break
        if time.monotonic() > deadline:
            raise Failure(f"no line {wanted}")
        time.sleep(0.1)
    expected = None if number is None else trace(number)
    if [line.get("traceId") for line in found] != [expected]:
        raise Failure(f"expected the trace {expected}: {found}")


def provision(context, number, name):
    body = {"executionId": name, "image": context.images["base"]["id"], "workspace": {"kind": "empty"},
            "resources": {"cpus": 1, "memoryBytes": 128 << 20, "diskBytes": 32 << 20, "pids": 64,
                          "runtimeMs": 3600000, "maxOutputBytes": 1000},
            "network": {"mode": "none"}, "host": context.host}
    context.expect(202, "POST", "/v1/executions?wait=false", json=body,
                   headers=parent(number) if number else None)
    await_line(context, "provisioned", number, execution=name)
    return f"/v1/executions/{name}"


def command(context, number, path, name, script, **more):
    body = {"commandId": name, "command": "/bin/sh", "args": ["-c", script], **more}
    context.expect(202, "POST", f"{path}/commands?wait=false", json=body,
                   headers=parent(number) if number else None)


def check(context):
    first = provision(context, 1, "traced")
    command(context, 2, first, "slow", "sleep 1")
    command(context, 3, first, "next", "true")           # its turn comes by the end of the first
    command(context, None, first, "untraced", "true")    # and this one's by the end of a traced one
    context.expect(202, "POST", f"{first}/checkpoints?wait=false", json={"checkpointId": "kept"},
                   headers=parent(4))
    await_line(context, "command ended", 2, command="slow")
    await_line(context, "command ended", 3, command="next")
    await_line(context, "command ended", None, command="untraced")
    await_line(context, "checkpoint made", 4, checkpoint="kept")
    command(context, 9, first, "cut", "sleep 600")
    command(context, 10, first, "dropped", "true")
    context.expect(204, "DELETE", first, headers=parent(5))
    await_line(context, "command ended", 9, command="cut")
    await_line(context, "command ended", 10, command="dropped")
    await_line(context, "execution ended", 5, execution="traced")

    second = provision(context, 6, "flooded")             # ended by what a command does
    command(context, 7, second, "flood", "head -c 100000 /dev/zero; sleep 600")
    await_line(context, "command ended", 7, command="flood")
    await_line(context, "execution ended", 7, execution="flooded")

    third = provision(context, 8, "late")                 # and by nobody's request but its own
    end = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 5))
    context.expect(200, "PATCH", third, json={"expiresAt": end})
    await_line(context, "execution ended", 8, execution="late")
    provision(context, None, "plain")
    context.expect(204, "DELETE", "/v1/executions/plain")
    await_line(context, "execution ended", None, execution="plain")


def run(context):
    context.service.stop()
    context.service.write_config({**context.settings, "logLevel": "debug"})
    context.service.start()
    check(context)
