"""GET /metrics in the text format, read strictly, against what was done; and the record of mutations."""
import hashlib
import json
import time

import exposition
from lib import streams  # noqa: F401  (the path of the table's library is set by context)
from mixed_output import check

TOKENS = {"ops": ["read", "write", "admin"], "user": ["read", "write"]}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def digest(name):
    return hashlib.sha256(name.encode()).hexdigest()


def auth(name):
    return {"Authorization": f"Bearer {name}"}


def scrape(context):
    answer = context.expect(200, "GET", "/metrics", headers=auth("ops"))
    kind = answer.header("Content-Type")
    check(kind == "text/plain; version=0.0.4; charset=utf-8", kind)
    return exposition.parse(answer.body.decode())


def settle(what, seconds=60):
    """What is counted when a request is over may be counted a moment after its answer."""
    deadline = time.monotonic() + seconds
    while not what():
        check(time.monotonic() < deadline, "not in time")
        time.sleep(0.05)


def use(context):
    """One execution with a command and a checkpoint, provisioned and terminated."""
    body = {"image": context.images["base"]["id"], "workspace": {"kind": "empty"},
            "executionId": "audited", "network": {"mode": "none"}, "host": context.host,
            "resources": {"cpus": 1, "memoryBytes": 64 << 20, "diskBytes": 16 << 20, "pids": 32,
                          "runtimeMs": 600000, "maxOutputBytes": 1 << 20}}
    path = "/v1/executions/audited"
    headers = {**auth("user"), "traceparent": PARENT, "X-Request-Id": "the-first"}
    context.expect(201, "POST", "/v1/executions", json=body, headers=headers)
    context.expect(409, "POST", "/v1/executions", json=body, headers=auth("user"))
    context.expect(201, "POST", f"{path}/commands", json={"command": "true"}, headers=auth("user"))
    context.expect(201, "POST", f"{path}/checkpoints", json={}, headers=auth("user"))
    held = scrape(context)
    context.expect(204, "DELETE", path, headers=auth("user"))
    return held


def check_counts(context, held):
    host = context.host
    check(exposition.value(held, "exechost_executions") == 1, "one lives")
    check(exposition.value(held, "exechost_granted_cpus") == 1, "it has one cpu")
    check(exposition.value(held, "exechost_stored_bytes", kind="checkpoints") > 0, "stored")
    after = scrape(context)
    for operation in ("provision", "exec", "checkpoint", "terminate"):
        count = exposition.value(after, "exechost_operation_duration_seconds_count",
                                 operation=operation, host=host, outcome="succeeded")
        check(count == 1, f"{operation}: {count}")
    check(exposition.value(after, "exechost_executions") == 0, "none lives")
    check(exposition.value(after, "exechost_terminations_total", reason="terminated") == 1, "ended")
    check(exposition.value(after, "exechost_host_ready", host=host) == 1, "the host is ready")
    check(exposition.value(after, "exechost_reconciliations_total", outcome="succeeded") >= 1, "one")

    def created(status):
        return exposition.value(scrape(context), "exechost_http_requests_total", method="POST",
                                route="/v1/executions", status=status)

    settle(lambda: created("201") == 1 and created("409") == 1)


def check_audit(path):
    settle(lambda: len(path.read_text().splitlines()) == 5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    check(path.stat().st_mode & 0o777 == 0o600, "its mode")
    first = [line for line in lines if line["requestId"] == "the-first"]
    check(len(first) == 1, lines)
    wanted = {"message": "mutation", "outcome": "done", "status": "201", "method": "POST",
              "path": "/v1/executions", "route": "/v1/executions", "tenant": "acme",
              "made": "/v1/executions/audited", "token": digest("user")[:16],
              "traceId": "0af7651916cd43dd8448eb211c80319c", "code": ""}
    check({key: first[0].get(key) for key in wanted} == wanted, first)
    refused = [line for line in lines if line["outcome"] == "refused"]
    check([line["code"] for line in refused] == ["EXECUTION_ALREADY_EXISTS"], refused)
    ended = [line for line in lines if line["method"] == "DELETE"]
    check([(line["path"], line["route"]) for line in ended] ==
          [("/v1/executions/audited", "/v1/executions/{executionId}")], ended)
    check(not any("user" == value for line in lines for value in line.values()), "the token itself")


def run(context):
    service = context.service
    audit = context.directory / "audit.jsonl"
    config = json.loads(service.config_path.read_text())
    config["auditLog"] = str(audit)
    config["tokens"] = [{"sha256": digest(name), "tenant": "acme", "scopes": scopes}
                        for name, scopes in TOKENS.items()]
    service.stop()
    service.write_config(config)
    service.start()
    try:
        context.expect(401, "GET", "/metrics")
        context.expect(403, "GET", "/metrics", headers=auth("user"))
        check_counts(context, use(context))
        check_audit(audit)
    finally:
        del config["tokens"]
        service.stop()
        service.write_config(config)
        service.start()
        context.call("DELETE", "/v1/executions/audited")
