"""What the service knows of the store's keys stays in it; and how it may come to know them."""
import pathlib
import ssl
import subprocess

from lib.service import ServiceError
from faults import Answer
from mixed_output import check
from sharing import each_store, field, random_file

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True
TOKEN = "session-token-of-the-tests"


def processes_but(pid):
    """What every other process was started with, and which it is."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        if path.name == str(pid):
            continue
        try:
            yield (path / "comm").read_text(), (path / "environ").read_bytes() + \
                (path / "cmdline").read_bytes()
        except OSError:
            pass  # it has ended, or is the kernel's


def said_nowhere(worker, words, answers):
    for path in sorted(worker.service.directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            for word in words:
                check(word not in data, f"{path} holds {word!r}")
    for name, data in processes_but(worker.service.process.pid):
        if "exechost" in name or b"exechost" in data:
            check(not any(word in data for word in words), f"a process {name} was given it")
    for answer in answers:
        check(not any(word in answer.body for word in words), f"an answer: {answer.brief()}")


def exercised(place, worker):
    """Executions, runs of commands, shares that go well and that do not; all answers."""
    home = worker.provision()
    worker.run_command(home, "env; cat /proc/*/environ 2>/dev/null; true")
    worker.start_command(home, "sleep 600")
    other = worker.make("date >file", worker.provision())
    answers = [worker.call("POST", f"/v1/checkpoints/{other['checkpointId']}/share")]
    check(answers[0].status == 200, answers[0].brief())
    for fault in (Answer(403, "SignatureDoesNotMatch"), Answer(503, "SlowDown")):
        place.proxy.fault("*", fault)
        more = worker.make(random_file(100))["checkpointId"]
        answers += [worker.call("POST", f"/v1/checkpoints/{more}/share"),
                    worker.call("GET", f"/v1/checkpoints/{more}"),
                    worker.call("GET", "/v1/shared-checkpoints")]
        place.proxy.heal()
    return answers + [worker.call("GET", path) for path in ("/v1/host", "/metrics", "/v1/checkpoints",
                                                            "/v1/events?follow=false")]


def from_file(place):
    """keys of a file are in no log, no answer, no file of the service, no process"""
    worker = place.worker(settings={"logLevel": "debug"})
    secret = place.store["users"][0]["secretKey"].encode()
    said_nowhere(worker, [secret], exercised(place, worker))


def from_environment(place):
    """keys of the environment are not passed on to any process"""
    worker = place.worker(start=False, settings={"logLevel": "debug"}, credentialsFile=None)
    user = place.store["users"][0]
    worker.service.environment = {"AWS_ACCESS_KEY_ID": user["accessKey"],
                                  "AWS_SECRET_ACCESS_KEY": user["secretKey"]}
    worker.service.start()
    said_nowhere(worker, [user["secretKey"].encode()], exercised(place, worker))
    worker.restart(kill=True)
    worker.listed()


def session_token(place):
    """a session token goes with every request, signed, and is said nowhere"""
    worker = place.worker(start=False, credentialsFile=None)
    user = place.store["users"][0]
    worker.service.environment = {"AWS_ACCESS_KEY_ID": user["accessKey"],
                                  "AWS_SECRET_ACCESS_KEY": user["secretKey"],
                                  "AWS_SESSION_TOKEN": TOKEN}
    worker.service.start()
    made = worker.make()["checkpointId"]
    answer = worker.call("POST", f"/v1/checkpoints/{made}/share")
    asked = place.proxy.requests()
    check(asked and all(request.headers.get("x-amz-security-token") == TOKEN and
                        "x-amz-security-token" in request.headers["authorization"]
                        for request in asked), f"not with it: {asked}")
    said_nowhere(worker, [TOKEN.encode()], [answer])


def missing(place):
    """without keys, or with a file that others may read, the service does not start"""
    open_to_all = pathlib.Path(place.credentials())
    open_to_all.chmod(0o644)
    for path in (None, str(open_to_all), str(open_to_all) + ".none"):
        worker = place.worker(start=False, credentialsFile=path)
        worker.service.environment = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
        try:
            worker.service.start()
        except ServiceError as error:
            check("redential" in str(error) or "AWS_" in str(error), str(error))
        else:
            check(False, f"it started with {path}")


def certificate(directory):
    key, file = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", str(key), "-out", str(file)], check=True, capture_output=True)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(file, key)
    return made, str(file)


def encrypted(context):
    """TLS with a CA of its own; nothing is sent to a server that can't show who it is"""
    tls, file = certificate(context.directory)
    with field(context, "ceph", tls) as place:
        worker = place.worker(caFile=file)
        made = worker.make(share=True)
        check(made["durability"] == "durable", made)
        place.proxy.forget()
        stranger = place.worker()
        answer = stranger.call("POST", f"/v1/checkpoints/{stranger.make()['checkpointId']}/share")
        check(answer.status == 502, answer.brief())
        check(not place.proxy.requests(), "it was asked all the same")


def by_host_name(place):
    """the bucket in the host's name"""
    port = place.proxy.endpoint.rpartition(":")[2]
    worker = place.worker(endpoint=f"http://localhost:{port}", pathStyle=False)
    made = worker.make(random_file(100), share=True)
    hosts = {request.headers["host"] for request in place.proxy.requests()}
    check(hosts == {f"{place.bucket.name}.localhost:{port}"}, hosts)
    check(place.manifest_key(made["checkpointId"]) in place.bucket.keys(), "the key")
    worker.expect(204, "DELETE", f"/v1/checkpoints/{made['checkpointId']}")
    worker.pull(made["shared"])


def run(context):
    for test in (from_file, from_environment, by_host_name):
        each_store(context, test)
    for test in (session_token, missing):
        with field(context, "ceph") as place:
            test(place)
    encrypted(context)
