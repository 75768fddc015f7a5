"""What workers that never came again have left in the bucket goes once it is a day old: uploads in parts,
blobs that nothing refers to, probes that were cut off. What is young, referred to, somebody else's or
of no known kind stays."""
import hashlib

from mixed_output import check
from sharing import PART, PREFIX, await_true, field, random_file

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True
DAY = 24 * 3600
ALMOST, OVER = DAY - 3600, DAY + 600
SECONDS = 1  # between two looks
BLOBS = f"{PREFIX}/default/blobs/sha256/"
OTHERS = f"{PREFIX}/other/blobs/sha256/"


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def put(place, age, *keys):
    for key in keys:
        place.bucket.put(key, key.encode())
        place.proxy.age(key, age)
    return keys


def begin_upload(place, key, age):
    """One in parts, with a part."""
    place.proxy.age(key, age)
    answer = place.bucket.expect({200}, "POST", key, {"uploads": ""})[2].decode()
    upload = answer.partition("<UploadId>")[2].partition("</UploadId>")[0]
    place.bucket.expect({200}, "PUT", key, {"partNumber": "1", "uploadId": upload}, b"p" * PART)
    return (key, upload)


def await_look(place):
    """A whole look that begins from now on: each begins with a list of uploads."""
    seen = place.proxy.count("uploads-bucket")
    await_true("another look at the bucket",
               lambda: place.proxy.count("uploads-bucket") >= seen + 2)


def sweep(place):
    """what is a day old and nobody's goes, and nothing else"""
    made = place.worker().make(random_file(1000), share=True)
    place.workers[0].service.stop()
    shared = place.bucket.keys()
    for key in shared:
        place.proxy.age(key, 30 * DAY)
    kept = put(place, ALMOST, BLOBS + digest("young"), OTHERS + digest("young"),
               f"{PREFIX}/.probes/probe_young")
    kept += put(place, OVER, BLOBS + "of-no-known-kind", f"{PREFIX}/notes", f"{PREFIX}/default/notes",
                f"{PREFIX}-of-another/default/blobs/sha256/{digest('old')}",
                f"another/{BLOBS}{digest('old')}", f"{PREFIX}/.probes-of-mine")
    gone = put(place, OVER, BLOBS + digest("old"), OTHERS + digest("old"),
               f"{PREFIX}/.probes/probe_old")
    young = [begin_upload(place, BLOBS + digest("young upload"), ALMOST)]
    begin_upload(place, BLOBS + digest("old upload"), OVER)
    foreign = [begin_upload(place, f"{PREFIX}-of-another/upload", OVER)]

    worker = place.worker(sweepSeconds=SECONDS)
    await_true("what is old and nobody's is gone", lambda: not set(gone) & set(place.bucket.keys()) and
               place.bucket.uploads() == sorted(young + foreign))
    await_look(place)
    check(set(place.bucket.keys()) == {*kept, *shared}, f"{place.bucket.keys()}")
    check(place.bucket.uploads() == sorted(young + foreign), f"{place.bucket.uploads()}")
    worker.pull(made["shared"])
    worker.check_whole(made["checkpointId"])
    unreadable_manifest(place, shared)
    removed_manifest(place, worker, made, kept)


def unreadable_manifest(place, shared):
    """What can't be read may refer to anything: nothing of its tenant goes, but of the others."""
    bad, = put(place, 0, f"{PREFIX}/default/checkpoints/unreadable/manifest.json")
    stays, goes = put(place, OVER, BLOBS + digest("unsure"), OTHERS + digest("sure"))
    await_true("the other tenant's is gone", lambda: goes not in place.bucket.keys())
    await_look(place)
    check({stays, *shared} <= set(place.bucket.keys()), "a blob is gone that may be referred to")
    place.bucket.delete(bad)
    await_true("it is gone now", lambda: stays not in place.bucket.keys())


def removed_manifest(place, worker, made, kept):
    """Blobs go when the last manifest that refers to them has gone."""
    place.bucket.delete(place.manifest_key(made["checkpointId"]))
    await_true("its blobs are gone", lambda: set(place.bucket.keys()) == set(kept))
    for key in place.keys_of(worker, made):
        place.proxy.age(key, 0)
    again = worker.share(made["checkpointId"])
    check(again["durability"] == "durable", f"{again}")
    await_look(place)
    check(set(place.bucket.keys()) == {*kept, *place.keys_of(worker, made)}, "shared again")


def cut_off_probe(place):
    """a probe that a kill has left goes like that"""
    worker = place.worker(start=False, sweepSeconds=SECONDS)
    hold = place.hold_after("put-other")
    worker.service.start(wait=False)
    hold.await_reached()
    worker.service.kill()
    place.calm_down()
    left = place.bucket.keys()
    check(len(left) == 1 and left[0].startswith(f"{PREFIX}/.probes/"), f"{left}")
    place.proxy.age(left[0], OVER)
    worker.service.start()
    await_true("the probe is gone", lambda: not place.bucket.keys())


def run(context):
    for name in ("ceph", "swift"):
        for test in (sweep, cut_off_probe):
            with field(context, name) as place:
                test(place)
                context.say(f"{name}: {test.__name__}")
