"""What was altered, cut off or exchanged in the bucket or on the way: it never becomes a checkpoint,
and the answer says which digest differs."""
import json

from faults import Alter, Cut
from mixed_output import check
from sharing import PART, each_store, random_file

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def refused(worker, shared, word, what):
    """Not imported, `word` in the detail, and nothing of it is there."""
    answer = worker.pull(shared, 422)
    check(answer["code"] == "EXECUTION_CHECKPOINT_INVALID" and word in answer["detail"],
          f"{what}: {answer}")
    check(worker.ids() == set() and worker.left() == [], f"{what}: {worker.left()}")


def objects(place):
    maker, worker = place.worker(), place.worker()
    one = maker.make(random_file(2 * PART + 5), checkpointId="one", share=True)
    two = maker.make(random_file(1000), checkpointId="two", share=True)
    manifest, blob = place.manifest_key("one"), place.blob_key(one["archiveDigest"])
    files = place.blob_key(maker.files_digest("one"))
    whole, archive, listed = (place.bucket.get(key) for key in (manifest, blob, files))
    other_manifest = place.bucket.get(place.manifest_key("two"))
    other_blob = place.bucket.get(place.blob_key(two["archiveDigest"]))
    renamed = json.dumps({**json.loads(whole), "metadata": {"changed": 1}}).encode()
    for what, key, data, word in (
            ("an altered archive", blob, flipped(archive, len(archive) // 2), "archive"),
            ("an archive altered at its end", blob, flipped(archive, len(archive) - 1), "archive"),
            ("a cut archive", blob, archive[:-1], "archive"),
            ("a longer archive", blob, archive + b"\0", "archive"),
            ("an empty archive", blob, b"", "archive"),
            ("another archive", blob, other_blob, "archive"),
            ("an altered list", files, flipped(listed, 10), "file list"),
            ("a cut list", files, listed[:-1], "file list"),
            ("another list", files, b"{}\n", "file list"),
            ("an altered manifest", manifest, flipped(whole, len(whole) // 2), "manifest"),
            ("a cut manifest", manifest, whole[:-2], "manifest"),
            ("an empty manifest", manifest, b"", "manifest"),
            ("another manifest", manifest, other_manifest, "manifest"),
            ("a manifest that reads well", manifest, renamed, "manifest"),
            ("no manifest at all", manifest, b"\0" * (8 << 20), "manifest")):
        place.bucket.put(key, data)
        refused(worker, one["shared"], word, what)
        place.bucket.put(manifest, whole)
        place.bucket.put(blob, archive)
        place.bucket.put(files, listed)
    refused(worker, {**one["shared"], "digest": two["shared"]["digest"]}, "manifest", "other digest")
    worker.pull(one["shared"])
    worker.check_whole("one")


def missing(place):
    maker, worker = place.worker(), place.worker()
    made = maker.make(random_file(1000), share=True)
    for digest, word in ((made["archiveDigest"], "archive"),
                         (maker.files_digest(made["checkpointId"]), "file list")):
        key = place.blob_key(digest)
        data = place.bucket.get(key)
        place.bucket.delete(key)
        refused(worker, made["shared"], word, f"no {word}")
        place.bucket.put(key, data)


def on_the_way(place):
    """altered each time: refused; once or twice cut or reset: tried again"""
    maker, worker = place.worker(), place.worker()
    made = maker.make(random_file(2 * PART + 5), share=True)
    place.proxy.fault("get-blob", Alter(12345))
    refused(worker, made["shared"], "archive", "altered on the way")
    place.proxy.heal()
    place.proxy.fault("get-manifest", Alter(50))
    refused(worker, made["shared"], "manifest", "altered on the way")
    place.proxy.heal()
    place.proxy.fault("get-blob", Cut(100000), times=1)
    place.proxy.fault("get-blob", Cut(PART // 2, hard=True), times=1)
    place.proxy.fault("get-manifest", Cut(10), times=1)
    worker.pull(made["shared"])
    worker.check_whole(made["checkpointId"])
    check(worker.get(made["checkpointId"])["archiveDigest"] == made["archiveDigest"], "digest")


def run(context):
    for test in (objects, missing, on_the_way):
        each_store(context, test)
