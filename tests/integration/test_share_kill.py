"""The service killed at each step of sharing, before and behind the store: what it ends in after the
restart is durable or not shared, and nothing of it stays in the bucket that belongs to nothing."""
import http.client

from context import Failure
from faults import Hold
from mixed_output import check
from sharing import PART, each_store, random_file, together

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True
BEFORE, BEHIND = False, True
STEPS = [(kind, after)
         for kind in ("head-blob", "create-blob", "part-blob", "complete-blob", "put-manifest")
         for after in (BEFORE, BEHIND)]
# Where the store itself may be left with something.
SOME = [("create-blob", BEHIND), ("part-blob", BEHIND), ("complete-blob", BEFORE), ("put-manifest", BEHIND)]


def kill_at(place, worker, made, kind, after, skip):
    hold = Hold(after)
    place.proxy.fault(kind, hold, times=1, skip=skip)
    worker.begin_share(made["checkpointId"])
    hold.await_reached()
    worker.service.kill()
    place.calm_down()
    worker.service.start()
    ended = worker.await_end(made["checkpointId"])
    what = f"killed {'behind' if after else 'before'} {kind}"
    if ended["durability"] == "durable":
        check(place.manifest_key(made["checkpointId"]) in place.bucket.keys(), f"{what}: no manifest")
    place.await_no_uploads()
    worker.check_whole(made["checkpointId"])
    shared = worker.share(made["checkpointId"])
    check(shared["durability"] == "durable", f"{what}: {shared}")
    check(not place.bucket.uploads(), f"{what}: uploads are left")
    return shared["shared"]


def steps(place):
    worker, other = place.worker(), place.worker()
    home = worker.provision()
    for kind, after in STEPS if place.name == "ceph" else SOME:
        made = worker.make(random_file(2 * PART + 1000), home)
        shared = kill_at(place, worker, made, kind, after, 1 if kind == "part-blob" and after else 0)
        taken = other.pull(shared)
        check(taken["archiveDigest"] == made["archiveDigest"], "imported")
        # Space in the stores is memory.
        other.expect(204, "DELETE", f"/v1/checkpoints/{taken['checkpointId']}")
        place.bucket.clear()


def cut_off(worker, shared):
    try:
        answer = worker.pull(shared)
    except (OSError, http.client.HTTPException):
        return
    raise Failure(f"it was imported: {answer}")


def kill_held(worker, hold):
    hold.await_reached()
    worker.service.kill()


def importing(place):
    """Killed while it imports: nothing of the checkpoint is seen, and it is imported anew."""
    worker, other = place.worker(), place.worker()
    made = worker.make(random_file(2 * PART), share=True)
    for kind in ("get-manifest", "get-blob"):
        hold = Hold()
        place.proxy.fault(kind, hold, times=1)
        together(lambda: cut_off(other, made["shared"]), lambda: kill_held(other, hold))
        place.calm_down()
        other.service.start()
        check(other.ids() == set() and other.left() == [], f"{kind}: something is left")
    other.pull(made["shared"])
    other.check_whole(made["checkpointId"])


def run(context):
    each_store(context, steps)
    each_store(context, importing)
