"""A checkpoint that outlives the worker that made it, and is restored by another on the other host."""
from mixed_output import check
from sharing import PART, field, random_file

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True
TREE = (f"{random_file(2 * PART + 12345, 'large')}; mkdir -p d/e; ln -s ../large d/link; ln large hard; "
        "dd if=/dev/zero of=sparse bs=1 count=1 seek=3000000 2>/dev/null; i=0; "
        "while [ $i -lt 200 ]; do echo $i >d/e/f$i; i=$((i+1)); done; chmod 640 d/e/f7")
SUMS = "find . -type f | sort | xargs sha256sum; ls -ln d/e/f7 | cut -c1-10; readlink d/link"


def sums(worker, execution):
    command = worker.run_command(execution, SUMS)
    return worker.expect(200, "GET", f"{command}/stdout").body


def moved(first, second):
    """From the first worker, which is killed and forgotten, to the second."""
    home = first.provision()
    first.run_command(home, TREE)
    before = sums(first, home)
    made = first.expect(201, "POST", f"{home}/checkpoints",
                        json={"share": True, "metadata": {"step": 3}}).json()
    check(made["durability"] == "durable" and made["shared"]["digest"], f"not durable: {made}")
    files = first.files_digest(made["checkpointId"])
    first.expect(204, "DELETE", home)
    first.forget()
    second.service.start()
    taken = second.pull(made["shared"])
    for field_name in ("checkpointId", "archiveDigest", "archiveBytes", "sizeBytes", "entries", "image",
                       "metadata", "createdAt", "sourceExecutionId"):
        check(taken[field_name] == made[field_name], f"{field_name}: {made} became {taken}")
    second.check_whole(taken["checkpointId"])
    again = second.restored(taken["checkpointId"])
    home = f"/v1/executions/{again['executionId']}"
    check(again["host"] == second.host and again["restoredFrom"] == taken["checkpointId"], again)
    check(sums(second, home) == before, "other contents")
    once_more = second.expect(201, "POST", f"{home}/checkpoints", json={}).json()
    check(second.files_digest(once_more["checkpointId"]) == files, "another list of files")


def run(context):
    for store, hosts in (("ceph", ("docker", "native")), ("swift", ("native", "docker"))):
        with field(context, store) as place:
            moved(place.worker(hosts[0]), place.worker(hosts[1], start=False))
            check(not place.bucket.uploads(), "uploads are left")
            context.say(f"{store}: {hosts[0]} to {hosts[1]}")
