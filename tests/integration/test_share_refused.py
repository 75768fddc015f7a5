"""References that lead elsewhere: nothing is asked of anybody. Answers that lead elsewhere: nobody goes."""
from faults import Redirect, Trap
from mixed_output import check
from sharing import PREFIX, field, random_file

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True


def elsewhere(place, trap, key):
    bucket = place.bucket.name
    return [
        f"s3://{bucket}/{key.replace('default', 'another')}",
        f"s3://{bucket}/other/prefix/default/checkpoints/one/manifest.json",
        f"s3://{bucket}/{PREFIX}x/default/checkpoints/one/manifest.json",
        f"s3://{bucket}/{PREFIX}/../{key}",
        f"s3://{bucket}/{PREFIX}/default/checkpoints/../checkpoints/one/manifest.json",
        f"s3://{bucket}/{PREFIX}/default/checkpoints/%2e%2e/one/manifest.json",
        f"s3://{bucket}/{PREFIX}/default/checkpoints/./one/manifest.json",
        f"s3://{bucket}/{PREFIX}/default/checkpoints//manifest.json",
        f"s3://{bucket}/{PREFIX}/default/checkpoints/one",
        f"s3://{bucket}/{PREFIX}/default/checkpoints/one/manifest.json/",
        f"s3://{bucket}/{PREFIX}/default/checkpoints/one/manifest.json/../../two/manifest.json",
        f"s3://{bucket}/{PREFIX}/default/blobs/sha256/{'0' * 64}",
        f"s3://{bucket}//{key}",
        f"s3://{bucket}/{key}?versionId=1",
        f"s3://{bucket}/{key}#x",
        f"s3://{bucket}/{key}%00",
        f"s3://{bucket}/{key}\n",
        f"s3://user:word@{bucket}/{key}",
        f"s3://{bucket}@127.0.0.1:{trap.port}/{key}",
        f"s3://127.0.0.1:{trap.port}/{key}",
        f"s3://{bucket}:{trap.port}/{key}",
        f"s3://{bucket}.evil/{key}",
        f"s3://x{bucket}/{key}",
        f"s3:/{bucket}/{key}",
        f"s3:///{key}",
        f"S3+http://{bucket}/{key}",
        f"http://127.0.0.1:{trap.port}/{bucket}/{key}",
        f"https://127.0.0.1:{trap.port}/{bucket}/{key}",
        f"{place.proxy.endpoint}/{bucket}/{key}",
        "file:///etc/passwd", "gopher://127.0.0.1/", "/etc/passwd", key, "", "s3://", " ", "\\\\x\\y",
    ]


def refused(place, trap):
    """before any byte leaves"""
    worker = place.worker()
    made = worker.make(random_file(100), checkpointId="one", share=True)
    worker.expect(204, "DELETE", "/v1/checkpoints/one")
    place.proxy.forget()
    for uri in elsewhere(place, trap, place.manifest_key("one")):
        answer = worker.call("POST", "/v1/checkpoints/import",
                             json={"uri": uri, "digest": made["shared"]["digest"]})
        check(answer.status == 400 and answer.json()["field"] == "/uri", f"{uri!r}: {answer.brief()}")
    for digest in ("", "sha256:", "sha256:" + "0" * 63, "sha256:" + "G" * 64, "md5:" + "0" * 32, 5):
        answer = worker.call("POST", "/v1/checkpoints/import",
                             json={"uri": made["shared"]["uri"], "digest": digest})
        check(answer.status == 400 and answer.json()["field"] == "/digest", f"{digest}: {answer.brief()}")
    for query in ("?prefix=../x", "?prefix=/x", "?prefix=a/b", "?prefix=%00"):
        answer = worker.call("GET", f"/v1/shared-checkpoints{query}")
        check(answer.status in (200, 400), answer.brief())
        check(answer.status == 400 or not answer.json()["items"], answer.brief())
    asked = [request for request in place.proxy.requests() if request.operation() != "list"]
    check(not asked and trap.visits == 0, f"somebody was asked: {asked}, {trap.visits}")
    worker.pull(made["shared"])


def redirected(place, trap):
    """no answer of the store leads anywhere else"""
    worker = place.worker()
    made = worker.make(random_file(100), checkpointId="two", share=True)
    worker.expect(204, "DELETE", "/v1/checkpoints/two")
    for status in (301, 302, 303, 307, 308):
        for kind in ("get-manifest", "*-blob"):
            place.proxy.fault(kind, Redirect(f"http://127.0.0.1:{trap.port}/x", status))
            answer = worker.call("POST", "/v1/checkpoints/import",
                                 json={key: made["shared"][key] for key in ("uri", "digest")})
            check(answer.status in (422, 502, 503), f"{status} of {kind}: {answer.brief()}")
            place.proxy.heal()
    fresh = worker.make(random_file(100))["checkpointId"]
    place.proxy.fault("*", Redirect(f"http://127.0.0.1:{trap.port}/x"))
    check(worker.share(fresh, 502)["code"] == "CHECKPOINT_UPLOAD_FAILED", "share")
    place.proxy.heal()
    check(trap.visits == 0, "somebody followed")
    check(worker.share(fresh)["durability"] == "durable", "afterwards")


def run(context):
    trap = Trap()
    try:
        for test in (refused, redirected):
            with field(context, "ceph") as place:
                test(place, trap)
    finally:
        trap.close()
