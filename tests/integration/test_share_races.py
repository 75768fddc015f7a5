"""Two workers that share under one id at once, the same and other contents."""
from faults import Hold
from mixed_output import check
from sharing import PART, each_store, random_file, together

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True


def copied(first, second, made):
    """The same checkpoint on another worker."""
    tar = first.expect(200, "GET", f"/v1/checkpoints/{made['checkpointId']}/export").body
    second.expect(201, "POST", "/v1/checkpoints/import", body=tar,
                  headers={"Content-Type": "application/x-tar"})


def at_once(place, kind, workers, checkpoint):
    """Shares on all of them, all held at that kind of request until each has come there."""
    holds = [Hold() for _ in workers]
    for hold in holds:
        place.proxy.fault(kind, hold, times=1)

    def release():
        for hold in holds:
            hold.await_reached()
        for hold in holds:
            hold.release()

    answers = together(*[lambda w=worker: w.call("POST", f"/v1/checkpoints/{checkpoint}/share")
                         for worker in workers], release)
    place.proxy.heal()
    return answers[:-1]


def same(place):
    """the same checkpoint, at once: one manifest, and both answers are right"""
    first, second = place.worker(), place.worker()
    for kind in ("put-manifest", "complete-blob", "create-blob", "head-blob"):
        made = first.make(random_file(2 * PART))
        copied(first, second, made)
        answers = at_once(place, kind, (first, second), made["checkpointId"])
        check([answer.status for answer in answers] == [200, 200],
              f"{kind}: {[answer.brief() for answer in answers]}")
        ours, theirs = (answer.json()["shared"] for answer in answers)
        check((ours["uri"], ours["digest"]) == (theirs["uri"], theirs["digest"]), "two references")
        check(place.bucket.keys() == place.keys_of(first, made), f"{kind}: {place.bucket.keys()}")
        check(not place.bucket.uploads(), f"{kind}: uploads are left: {place.bucket.uploads()}")
        first.expect(204, "DELETE", f"/v1/checkpoints/{made['checkpointId']}")
        first.pull(ours)
        first.check_whole(made["checkpointId"])
        place.bucket.clear()


def one_killed(place):
    """one worker's restart leaves another's upload of the same blob alone"""
    first, second = place.worker(), place.worker()
    made = first.make(random_file(2 * PART))
    copied(first, second, made)
    hold, stopped = Hold(), Hold()
    place.proxy.fault("complete-blob", hold, times=1)
    first.begin_share(made["checkpointId"])
    hold.await_reached()
    place.proxy.fault("part-blob", stopped, times=1)
    second.begin_share(made["checkpointId"])
    stopped.await_reached()
    second.service.kill()
    stopped.release()
    second.service.start()
    second.await_end(made["checkpointId"])
    hold.release()
    place.proxy.heal()
    check(first.await_end(made["checkpointId"])["durability"] == "durable",
          f"{first.get(made['checkpointId'])}")
    check(second.share(made["checkpointId"])["durability"] == "durable", "the second one")
    place.await_no_uploads()


def other_content(place):
    """other content under the same id: 409, and nothing has changed"""
    first, second = place.worker(), place.worker()
    made = first.make(random_file(1000), checkpointId="same", share=True)
    second.make(random_file(1000), checkpointId="same")
    before = place.bucket.get(place.manifest_key("same"))
    for _ in range(2):
        refused = second.share("same", 409)
        check(refused["code"] == "SHARED_CONFLICT" and refused["retryable"] is False, refused)
    now = second.get("same")
    check(now["durability"] == "failed" and now["shared"]["error"]["code"] == "SHARED_CONFLICT", now)
    check(place.bucket.get(place.manifest_key("same")) == before, "the manifest has changed")
    check(first.share("same")["shared"]["digest"] == made["shared"]["digest"], "the first one")
    first.expect(204, "DELETE", "/v1/checkpoints/same")
    first.pull(made["shared"])
    first.check_whole("same")
    second.check_whole("same")


def other_content_at_once(place):
    """both write at once: where the store can tell, one of them is refused"""
    if place.name != "ceph":
        return  # what a store without conditional writes can't tell is said in the documentation
    first, second = place.worker(), place.worker()
    for worker in (first, second):
        worker.make(random_file(1000), checkpointId="same")
    answers = at_once(place, "put-manifest", (first, second), "same")
    check(sorted(answer.status for answer in answers) == [200, 409],
          [answer.brief() for answer in answers])


def run(context):
    for test in (same, one_killed, other_content, other_content_at_once):
        each_store(context, test)
