"""Sharing, listing, importing and deleting, once and several at a time."""
from faults import Slow
from mixed_output import check
from sharing import PART, await_true, each_store, random_file, together

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True


def progress(place):
    """wait=false answers at once; what was sent grows to the total; sharing again sends nothing"""
    worker = place.worker()
    made = worker.make(random_file(PART // 2))["checkpointId"]
    check(worker.get(made)["durability"] == "local" and worker.get(made)["shared"] is None, "local")
    place.proxy.fault("put-blob", Slow(2 << 20))
    begun = worker.begin_share(made)
    check(begun["durability"] == "uploading", begun)
    seen = []

    def over():
        now = worker.get(made)
        seen.append(now["shared"]["bytesSent"] if now["shared"] else 0)
        return now["durability"] != "uploading"

    await_true("the upload", over)
    now = worker.get(made)
    check(now["durability"] == "durable" and now["shared"]["uri"] and now["shared"]["uploadedAt"]
          and now["shared"]["error"] is None, now)
    check(now["shared"]["bytesSent"] == now["shared"]["bytesTotal"] >= now["archiveBytes"], now)
    check(seen == sorted(seen), f"progress: {seen}")
    place.proxy.heal()
    place.proxy.forget()
    check(worker.share(made)["shared"] == now["shared"], "shared again")
    check(place.proxy.count("put-*") + place.proxy.count("create-*") == 0, "sent again")
    worker.restart(kill=True)
    check(worker.get(made)["shared"] == now["shared"], "after a restart")
    check(worker.expect(200, "GET", "/v1/checkpoints?durability=durable").json()["items"], "filter")


def same_blob(place):
    """a blob that is there is not sent again, whoever sent it"""
    first, second = place.worker(), place.worker()
    made = first.make(random_file(2 * PART))
    first.share(made["checkpointId"])
    tar = first.expect(200, "GET", f"/v1/checkpoints/{made['checkpointId']}/export").body
    second.expect(201, "POST", "/v1/checkpoints/import", body=tar,
                  headers={"Content-Type": "application/x-tar"})
    place.bucket.delete(place.manifest_key(made["checkpointId"]))
    place.proxy.forget()
    shared = second.share(made["checkpointId"])
    check(shared["durability"] == "durable", shared)
    sent = [r for r in place.proxy.requests("*-blob") if r.method in ("PUT", "POST")]
    check(not sent, f"sent again: {sent}")
    check(place.proxy.count("put-manifest") > 0, "the manifest was not sent")


def importing(place):
    """of several imports of one reference at once one makes it, the others find it; so does one more"""
    first, second = place.worker(), place.worker()
    made = first.make(random_file(2 * PART), metadata={"a": 1})
    shared = first.share(made["checkpointId"])["shared"]
    body = {"uri": shared["uri"], "digest": shared["digest"]}
    answers = together(*[lambda: second.call("POST", "/v1/checkpoints/import", json=body)] * 6)
    check(sorted(answer.status for answer in answers) == [200] * 5 + [201],
          [answer.brief() for answer in answers])
    check(second.ids() == {made["checkpointId"]} and second.left() == [made["checkpointId"]], "one")
    second.check_whole(made["checkpointId"])
    more = second.call("POST", "/v1/checkpoints/import", json=body)
    check(more.status == 200, more.brief())
    now = second.get(made["checkpointId"])
    check(now["durability"] == "durable" and now["shared"]["digest"] == shared["digest"], now)


def listing(place):
    """the list goes by pages and by prefix, and shows what can be imported"""
    worker = place.worker()
    home = worker.provision()
    names = [f"list.{number}" for number in range(7)]
    for name in names:
        worker.make("date >file", home, checkpointId=name, share=True)
    worker.make("date >file", home, checkpointId="other", share=True)
    found, cursor = [], ""
    while cursor is not None:
        page = worker.listed(f"?prefix=list.&limit=3&cursor={cursor}" if cursor
                             else "?prefix=list.&limit=3")
        check(len(page["items"]) <= 3, "a page")
        found += page["items"]
        cursor = page["nextCursor"]
    check(sorted(item["checkpointId"] for item in found) == names, found)
    check(len(worker.listed()["items"]) == 8, "all")
    second = place.worker()
    for item in found[:2]:
        full = worker.get(item["checkpointId"])["shared"]
        check(item["uri"] == full["uri"], item)
        second.pull(full)


def deleting(place):
    """the local copy goes alone; with shared=true the published one goes, and its blob stays"""
    worker = place.worker()
    made = worker.make(random_file(1000), share=True)
    name, shared = made["checkpointId"], made["shared"]
    worker.expect(204, "DELETE", f"/v1/checkpoints/{name}")
    check(place.manifest_key(name) in place.bucket.keys(), "it is still there")
    worker.pull(shared)
    worker.expect(204, "DELETE", f"/v1/checkpoints/{name}?shared=true")
    check(place.manifest_key(name) not in place.bucket.keys(), "it is gone")
    check(place.blob_key(made["archiveDigest"]) in place.bucket.keys(), "the blob is young")
    check(not worker.listed()["items"], "listed")
    check(worker.pull(shared, 404)["code"] == "EXECUTION_CHECKPOINT_NOT_FOUND", "imported")
    check(worker.ids() == set() and worker.left() == [], "left")


def run(context):
    for test in (progress, same_blob, importing, listing, deleting):
        each_store(context, test)
