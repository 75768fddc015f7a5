"""Checkpoints on their way to a shared store, against curl."""
import os
import pathlib
import subprocess
import sys

from lib.sampling import compared, interleaved, timed
from lib.wire import WireError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/objects"))
from s3 import Bucket, Stores  # noqa: E402

BYTES = 512 << 20
BAR = 1.3


def credentials(directory, user):
    path = directory / "credentials"
    path.touch(0o600)
    path.write_text(f"[default]\naws_access_key_id={user['accessKey']}\n"
                    f"aws_secret_access_key={user['secretKey']}\n", encoding="ascii")
    return str(path)


def curl(store, bucket, file):
    """The same bytes by one PUT, signed by curl but for the body, which it does not read twice."""
    user = store["users"][0]
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", "-T", file, "-K", "-", "--aws-sigv4",
         f"aws:amz:{store['region']}:s3", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD",
         f"{store['endpoint']}/{bucket.name}/by-curl"],
        input=f"user = {user['accessKey']}:{user['secretKey']}\n", capture_output=True, text=True,
        check=False)
    if done.returncode != 0:
        raise WireError(f"curl: {done.stderr.strip()} {done.stdout.strip()}")


def sharing(bench):
    """share: a new checkpoint each time, and an empty bucket."""
    directory = pathlib.Path(bench.path("objects"))
    directory.mkdir()
    stores = Stores(str(directory))
    try:
        return measure(bench, stores["ceph"], directory)
    finally:
        stores.close()


def measure(bench, store, directory):
    bucket = Bucket(store, "bench").make()
    service = bench.native_service({"sharedStore": {
        "endpoint": store["endpoint"], "region": store["region"], "bucket": bucket.name,
        "pathStyle": True, "credentialsFile": credentials(directory, store["users"][0])}})
    try:
        execution = service.provision(memoryBytes=3 * BYTES, diskBytes=BYTES + (64 << 20))
        service.execute(execution, "sh", ["-c", f"head -c {BYTES} /dev/urandom >bytes"])

        def checkpoint():
            service.connection.close()  # curl may have taken longer than an idle one is kept
            made = service.call("POST", f"/v1/executions/{execution}/checkpoints", {})
            return made["checkpointId"]

        # The archive that the service sends, by another name.
        archive = service.data / "checkpoints/default" / checkpoint() / "workspace.tar.zst"
        file = directory / "archive"
        os.link(archive, file)

        def ours():
            made = checkpoint()
            spent, shared = timed(service.call, "POST", f"/v1/checkpoints/{made}/share")
            if shared["durability"] != "durable":
                raise WireError(f"not shared: {shared}")
            service.call("DELETE", f"/v1/checkpoints/{made}")
            bucket.clear()
            return spent

        def theirs():
            spent = timed(curl, store, bucket, str(file))[0]
            bucket.clear()
            return spent

        figures = interleaved(bench.samples, ours, theirs, warm_up=1)
    finally:
        service.stop()
        bucket.clear()
    return [compared("share", "POST …/share, 512 MiB, to a Ceph gateway on loopback",
                     "`curl -T` of the same bytes to it", "ms", figures, BAR)]
