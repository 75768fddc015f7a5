"""What is said of sharing besides: what the store can do, whose objects lie where, what was altered on disk,
parts side by side, stores that stand still, and how long is waited before another attempt."""
import hashlib

from faults import Answer, Hold
from mixed_output import check
from sharing import PART, await_true, each_store, random_file, together

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True
TENANTS = ("red", "blue")
RESOURCES = {"cpus": 1, "memoryBytes": 64 << 20, "diskBytes": 16 << 20, "pids": 32,
             "runtimeMs": 3600000, "maxOutputBytes": 1 << 20}
ODD_PREFIX = "a.b/~c/d_e-f.."


def conditional_writes(place):
    """what the store does with conditional writes is asked once, shown, and its manifests are sent so"""
    honoured = place.name == "ceph"
    worker = place.worker()

    def shown():
        return worker.expect(200, "GET", "/v1/host").json()["sharedStore"]["conditionalWrites"]
    await_true("what the store can do", lambda: shown() is not None)
    check(shown() is honoured, f"{shown()}")
    probes = place.proxy.count("put-other")
    worker.make(share=True)
    worker.make(share=True)
    check(place.proxy.count("put-other") == probes, "it was asked again")
    sent = place.proxy.requests("put-manifest")
    check(len(sent) >= 2 and all((request.headers.get("if-none-match") == "*") is honoured
                                 for request in sent), f"{sent}")
    check(not [key for key in place.bucket.keys() if ".probes/" in key], "a probe is left")


def tenants(place):
    """each tenant's objects lie below its name, and no other tenant can list, import or replace them"""
    tokens = [{"sha256": hashlib.sha256(name.encode()).hexdigest(), "tenant": name,
               "scopes": ["read", "write", "admin"]} for name in TENANTS]
    worker = place.worker(settings={"tokens": tokens}, prefix=ODD_PREFIX)

    def call(tenant, status, method, path, json=None):
        return worker.expect(status, method, path, json=json,
                             headers={"Authorization": f"Bearer {tenant}"})

    made = {}
    for tenant in TENANTS:
        home = call(tenant, 201, "POST", "/v1/executions", {
            "image": worker.images["base"]["id"], "workspace": {"kind": "empty"}, "host": worker.host,
            "network": {"mode": "none"}, "resources": RESOURCES}).json()["executionId"]
        made[tenant] = call(tenant, 201, "POST", f"/v1/executions/{home}/checkpoints",
                            {"checkpointId": "same", "metadata": {"of": tenant}, "share": True}).json()
        call(tenant, 204, "DELETE", f"/v1/executions/{home}")
    for tenant in TENANTS:
        key = f"{ODD_PREFIX}/{tenant}/checkpoints/same/manifest.json"
        check(made[tenant]["shared"]["uri"] == f"s3://{place.bucket.name}/{key}", made[tenant])
        check(key in place.bucket.keys(), f"{key} is not there")
        listed = call(tenant, 200, "GET", "/v1/shared-checkpoints").json()["items"]
        check([item["metadata"] for item in listed] == [{"of": tenant}], f"{listed}")
    check(all(key.startswith(tuple(f"{ODD_PREFIX}/{tenant}/" for tenant in TENANTS))
              for key in place.bucket.keys()), f"{place.bucket.keys()}")
    theirs = {key: made["red"]["shared"][key] for key in ("uri", "digest")}
    place.proxy.forget()
    refused = call("blue", 400, "POST", "/v1/checkpoints/import", theirs).json()
    check(refused["field"] == "/uri" and not place.proxy.requests(), f"{refused}")
    call("red", 204, "DELETE", "/v1/checkpoints/same")
    call("red", 201, "POST", "/v1/checkpoints/import", theirs)
    worker.service.stop()


def altered_on_disk(place):
    """an archive that is not what its manifest says is never published, in one piece or in parts"""
    worker = place.worker()
    for size in (PART // 2, 3 * PART):
        made = worker.make(random_file(size))["checkpointId"]
        archive = worker.service.data / "checkpoints/default" / made / "workspace.tar.zst"
        with open(archive, "r+b") as file:
            file.seek(-1000, 2)
            old = file.read(1)
            file.seek(-1000, 2)
            file.write(bytes([old[0] ^ 1]))
        answer = worker.call("POST", f"/v1/checkpoints/{made}/share")
        check(answer.status == 422 and b"digest" in answer.body, answer.brief())
        check(worker.get(made)["durability"] == "failed", f"{worker.get(made)}")
        check(place.bucket.keys() == [] and place.bucket.uploads() == [],
              f"{place.bucket.keys()} {place.bucket.uploads()}")


def in_order(place):
    """parts go side by side; the manifest is sent when all that it tells of is there"""
    worker = place.worker()
    made = worker.make(random_file(3 * PART))["checkpointId"]
    holds = [Hold(), Hold()]
    for hold in holds:
        place.proxy.fault("part-blob", hold, times=1)

    def release():
        for hold in holds:
            hold.await_reached()
        check(place.proxy.count("complete-blob") == place.proxy.count("put-manifest") == 0,
              "put together without its parts")
        for hold in holds:
            hold.release()
    together(lambda: worker.share(made), release)
    manifest = place.proxy.requests("put-manifest")[0]
    blobs = [request for request in place.proxy.requests("*-blob")
             if request.kind in ("put-blob", "part-blob", "complete-blob")]
    check(len(blobs) >= 6 and all(request.at < manifest.at for request in blobs), f"{blobs}")
    check(all("content-length" in request.headers and "transfer-encoding" not in request.headers
              for request in [*blobs, manifest]), "a length is not told")


def standing_still(place):
    """a part that is not answered is cut and sent again, to the same upload"""
    worker = place.worker(stallSeconds=4, maxAttempts=20)
    made = worker.make(random_file(2 * PART))["checkpointId"]
    place.proxy.fault("part-blob", Hold(), times=1)
    check(worker.share(made)["durability"] == "durable", "shared")
    sent = [(request.query["uploadId"], request.query["partNumber"])
            for request in place.proxy.requests("part-blob")]
    check(len(sent) > len(set(sent)), f"{sent}")
    check(not place.bucket.uploads(), "uploads are left")


def backing_off(place):
    """attempts come further and further apart"""
    worker = place.worker(maxAttempts=5)
    made = worker.make(random_file(100))["checkpointId"]
    place.proxy.fault("put-blob", Answer(503, "SlowDown"), times=4)
    worker.share(made)
    at = [request.at for request in place.proxy.requests("put-blob")][:5]
    gaps = [after - before for before, after in zip(at, at[1:])]
    check(all(gap >= least for gap, least in zip(gaps, (0.1, 0.2, 0.4, 0.8))), f"{gaps}")


def run(context):
    for test in (conditional_writes, tenants, altered_on_disk, in_order, standing_still, backing_off):
        each_store(context, test)
