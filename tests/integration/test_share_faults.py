"""Stores and disks that fail: what passes by is tried again, the rest is said, and the checkpoint is
whole either way."""
import hashlib
import pathlib
import subprocess

from faults import Answer, Lose, Reset, Skewed, Slow, Spoil
from mixed_output import check
from sharing import PART, each_store, random_file

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True
WRITES = ("head-blob", "create-blob", "part-blob", "complete-blob", "put-manifest")


def passing(place):
    """errors that pass by, of each request, one after the other: the answer is right"""
    worker = place.worker()
    home = worker.provision()
    statuses = (500, 502, 503, 504, 429) if place.name == "ceph" else (503,)
    faults = [(f"{status}", lambda s=status: Answer(s, "SlowDown")) for status in statuses]
    faults += [("reset", lambda: Reset(0)), ("reset later", lambda: Reset(100)), ("lost", Lose)]
    for number, (what, make) in enumerate(faults):
        made = worker.make(random_file(2 * PART), home)
        rules = [(kind, place.proxy.fault(kind, make(), times=1)) for kind in WRITES]
        shared = worker.share(made["checkpointId"])
        check(shared["durability"] == "durable", f"{what}: {shared}")
        missed = [kind for kind, rule in rules if rule.hits == 0 and kind != "head-blob"]
        check(not missed, f"{what}: not met: {missed}")
        place.proxy.heal()
        check(not place.bucket.uploads(), f"{what}: uploads are left")
        if number % 3 == 0:
            worker.expect(204, "DELETE", f"/v1/checkpoints/{made['checkpointId']}")
            for kind in ("get-manifest", "get-blob"):
                place.proxy.fault(kind, make(), times=2)
            worker.pull(shared["shared"])
            worker.check_whole(made["checkpointId"])
            place.proxy.heal()
        place.bucket.clear()


def altered_part(place):
    """a part that arrives altered is sent again, and only that part"""
    worker = place.worker()
    made = worker.make(random_file(2 * PART))
    place.proxy.fault("part-blob", Spoil(777), times=1)
    check(worker.share(made["checkpointId"])["durability"] == "durable", "shared")
    check(place.proxy.count("create-blob") == 1, "the whole upload was begun again")
    worker.expect(204, "DELETE", f"/v1/checkpoints/{made['checkpointId']}")
    worker.pull(worker.listed()["items"][0] | {"digest": digest_of(place, made["checkpointId"])})


def digest_of(place, checkpoint):
    return "sha256:" + hashlib.sha256(place.bucket.get(place.manifest_key(checkpoint))).hexdigest()


def slow(place):
    """a slow store is waited for"""
    worker = place.worker()
    made = worker.make(random_file(PART))
    place.proxy.fault("*-blob", Slow(3 << 20))
    check(worker.share(made["checkpointId"])["durability"] == "durable", "shared")


def refused(place, worker, made, what, retryable):
    """Not shared; said so at once, and after a restart; the checkpoint is whole."""
    answer = worker.share(made, 502)
    check(answer["code"] == "CHECKPOINT_UPLOAD_FAILED" and answer["retryable"] is retryable,
          f"{what}: {answer}")
    for kill in (True, None):
        now = worker.get(made)
        check(now["durability"] == "failed", f"{what}: {now}")
        error = now["shared"]["error"]
        check(error["code"] and error["detail"] and error["retryable"] is retryable, f"{what}: {now}")
        if kill:
            worker.restart(kill)
    worker.check_whole(made)
    check(not place.bucket.uploads(), f"{what}: uploads are left")


def lasting(place):
    """errors that stay"""
    worker = place.worker(maxAttempts=3)
    made = worker.make(random_file(2 * PART))["checkpointId"]
    for what, kind, fault, retryable in (
            ("403", "*", Answer(403, "AccessDenied"), False),
            ("403 of a part", "part-blob", Answer(403, "AccessDenied"), False),
            ("the clock", "*", Skewed(), False),
            ("403 of the manifest", "put-manifest", Answer(403, "AccessDenied"), False),
            ("503", "*", Answer(503, "SlowDown"), True),
            ("503 of a part", "part-blob", Answer(503, "SlowDown"), True)):
        place.proxy.fault(kind, fault)
        refused(place, worker, made, what, retryable)
        place.proxy.heal()
        place.bucket.clear()
    check(worker.share(made)["durability"] == "durable", "afterwards")


def configured_wrong(place):
    """wrong secret, unknown user, no such bucket, nobody listens"""
    user = place.store["users"][0]
    wrong = place.credentials({**user, "secretKey": "0" * 40})
    unknown = place.credentials({"accessKey": "AKNOBODY", "secretKey": "0" * 40})
    for what, changes, retryable in (("wrong secret", {"credentialsFile": wrong}, False),
                                     ("unknown user", {"credentialsFile": unknown}, False),
                                     ("no bucket", {"bucket": "no-such-bucket"}, False),
                                     ("nobody", {"endpoint": "http://127.0.0.1:1"}, True)):
        worker = place.worker(**changes, maxAttempts=3)
        refused(place, worker, worker.make()["checkpointId"], what, retryable)
        answer = worker.call("GET", "/v1/shared-checkpoints")
        check(answer.status in (502, 503), f"{what}: {answer.brief()}")
        worker.end()


def not_configured(place):
    """without a store: 409, and nothing else has changed"""
    worker = place.worker(settings={"sharedStore": None})
    made = worker.make()["checkpointId"]
    check(worker.share(made, 409)["code"] == "SHARED_STORE_NOT_CONFIGURED", "share")
    check(worker.get(made)["durability"] == "local", "local")
    for answer in (worker.call("GET", "/v1/shared-checkpoints"),
                   worker.call("POST", "/v1/checkpoints/import",
                               json={"uri": "s3://bucket/x", "digest": "sha256:" + "0" * 64})):
        check(answer.status == 409 and answer.json()["code"] == "SHARED_STORE_NOT_CONFIGURED",
              answer.brief())


def full_disk(place):
    """an import that does not fit: 507, nothing of it is left, what was there is whole"""
    maker = place.worker()
    small = maker.make(random_file(1000), share=True)
    large = maker.make(random_file(40 << 20), share=True)
    worker = place.worker(start=False)
    data = worker.service.data
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "tmpfs", str(data)], check=True)
    try:
        worker.service.start()
        worker.pull(small["shared"])
        answer = worker.pull(large["shared"], 507)
        check(answer["code"] == "STORAGE_FULL", answer)
        check(worker.ids() == {small["checkpointId"]} and worker.left() == [small["checkpointId"]],
              f"left: {worker.left()}")
        worker.check_whole(small["checkpointId"])
        worker.restart(kill=True)
        check(worker.left() == [small["checkpointId"]], "after a restart")
        worker.end()
    finally:
        worker.service.kill()
        subprocess.run(["umount", str(data)], check=True)
        pathlib.Path(data).mkdir(exist_ok=True)


def run(context):
    for test in (passing, altered_part, slow, lasting, configured_wrong, not_configured, full_disk):
        each_store(context, test)
