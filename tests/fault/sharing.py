"""A life with a shared store: checkpoints published, taken in, removed there; and what has to be in the
bucket after a fault and a restart."""
import hashlib
import json
import pathlib
import sys
import time
import uuid

from agreement import compare
from life import Life, Strange

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "objects"))
from s3 import Bucket  # noqa: E402

PART = 5 << 20
LARGE = PART + 100000  # two parts
SECONDS = 120
PHASES = ("sharing", "resuming")
# In `resuming` the first start dies there, with an upload half sent.
CUT_AT = "objects.part.done:1:kill"


class Place:
    """A prefix of its own in the bucket of all cases, and what lies there."""

    def __init__(self, store, bucket):
        self.store = store
        self.bucket = bucket
        self.prefix = uuid.uuid4().hex[:12]

    def settings(self, directory):
        """`sharedStore` of the configuration; credentials in a file below `directory`."""
        path = directory / "credentials"
        if not path.exists():
            user = self.store["users"][0]
            path.touch(0o600)
            path.write_text(f"[default]\naws_access_key_id = {user['accessKey']}\n"
                            f"aws_secret_access_key = {user['secretKey']}\n", encoding="ascii")
        return {"endpoint": self.store["endpoint"], "region": self.store["region"],
                "bucket": self.bucket.name, "prefix": self.prefix, "pathStyle": True,
                "multipartBytes": PART, "partBytes": PART, "credentialsFile": str(path)}

    def uploads(self):
        return [key for key, _ in self.bucket.uploads() if key.startswith(f"{self.prefix}/")]

    def keys(self):
        return set(self.bucket.keys(f"{self.prefix}/"))

    def manifest_key(self, name):
        return f"{self.prefix}/default/checkpoints/{name}/manifest.json"

    def blob_key(self, digest):
        return f"{self.prefix}/default/blobs/sha256/{digest.removeprefix('sha256:')}"

    def clear(self):
        for key in self.keys():
            self.bucket.delete(key)


class SharingLife(Life):
    def __init__(self, call, gone, setting):
        super().__init__(call, gone, {**setting, "programs": False})
        self.references = {}   # id: {uri, digest}, or None where its removal was asked for
        self.removed = set()

    def note(self, checkpoint):
        name, shared = checkpoint["checkpointId"], checkpoint["shared"]
        if checkpoint["durability"] != "durable":
            raise Strange(f"{name} is answered before it is durable: {checkpoint}")
        self.references[name] = {key: shared[key] for key in ("uri", "digest")}

    def publish(self, name):
        if self.checkpoints.get(name):
            answer = self.call("POST", f"/v1/checkpoints/{name}/share")
            if self.made(answer, 200):
                self.note(answer.json())

    def make_published(self, execution, name):
        if self.executions.get(execution) != "living":
            return
        answer = self.call("POST", f"/v1/executions/{execution}/checkpoints",
                           {"checkpointId": name, "share": True})
        if self.made(answer):
            self.checkpoints[name] = answer.json()["archiveDigest"]
            self.note(answer.json())

    def take_in(self, name):
        """Deleted here, imported by reference."""
        digest = self.checkpoints.get(name)
        if not digest or not self.references.get(name):
            return
        self.checkpoints[name] = None
        if self.made(self.call("DELETE", f"/v1/checkpoints/{name}"), 204):
            answer = self.call("POST", "/v1/checkpoints/import", self.references[name])
            if self.made(answer):
                self.checkpoints[name] = digest

    def remove(self, name):
        """Here and there."""
        if name not in self.references:
            return
        self.checkpoints[name] = self.references[name] = None
        if self.made(self.call("DELETE", f"/v1/checkpoints/{name}?shared=true"), 204):
            self.deleted.add(name)
            self.removed.add(name)

    def settle(self, seconds):
        """What an earlier start has left uploading."""
        deadline = time.monotonic() + seconds
        while self.uploading():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def uploading(self):
        answer = self.call("GET", "/v1/checkpoints?limit=200")
        return answer is None or answer.status != 200 or \
            [item for item in answer.json()["items"] if item["durability"] == "uploading"]

    def live(self):
        self.provision("a", {"kind": "empty"})
        self.command("a", "fill", f"head -c {LARGE} /dev/urandom >large", "")
        self.checkpoint("a", "large")
        self.publish("large")
        self.command("a", "empty", "rm large; echo small >small", "")
        self.make_published("a", "small")
        self.call("GET", "/v1/shared-checkpoints")
        self.take_in("large")
        self.remove("small")

    def end(self):
        self.terminate("a")
        self.remove("large")


class SharedAgreement:
    """`agreement` is that of the restarted service."""

    def __init__(self, agreement, place):
        self.agreement = agreement
        self.life = agreement.life
        self.place = place

    def check(self):
        if not self.life.settle(SECONDS):
            raise Strange(f"not within {SECONDS} s: the end of uploads")
        self.check_published()
        self.check_uploads()
        for name, reference in self.life.references.items():
            if reference:
                self.check_reference(name, reference)
        for item in self.agreement.list("/v1/checkpoints"):
            self.share_again(item["checkpointId"])
        self.check_uploads()
        self.check_published()

    def check_uploads(self):
        compare("uploads in parts", set(self.place.uploads()), set())

    def check_published(self):
        """Whatever has a manifest is there as a whole."""
        keys = self.place.keys()
        found = {key.split("/")[3] for key in keys if key.endswith("/manifest.json")}
        for name in found:
            manifest = json.loads(self.place.bucket.get(self.place.manifest_key(name)))
            for digest in (manifest["archive"]["digest"], manifest["files"]):
                content = self.place.bucket.get(self.place.blob_key(digest))
                if "sha256:" + hashlib.sha256(content).hexdigest() != digest:
                    raise Strange(f"a blob of {name} in the bucket is another than {digest}")
        compare("removed checkpoints in the bucket", found & self.life.removed, set())

    def check_reference(self, name, reference):
        """What was answered to be durable is there, and can be taken in from there."""
        found = self.place.bucket.get(self.place.manifest_key(name))
        if "sha256:" + hashlib.sha256(found).hexdigest() != reference["digest"]:
            raise Strange(f"the manifest of {name} in the bucket is another")
        answer = self.life.call("DELETE", f"/v1/checkpoints/{name}")
        if answer is None or answer.status not in (204, 404):
            raise Strange(f"{name} can't be deleted: {answer.brief() if answer else None}")
        self.agreement.expect(201, "POST", "/v1/checkpoints/import", reference)
        self.agreement.check_checkpoint(name, json.loads(found)["archive"]["digest"])
        if self.life.checkpoints.get(name) not in (None, json.loads(found)["archive"]["digest"]):
            raise Strange(f"{name} was taken in with other contents")

    def share_again(self, name):
        """Whatever became of it, it can be published now."""
        answer = self.agreement.expect(200, "POST", f"/v1/checkpoints/{name}/share").json()
        if answer["durability"] != "durable":
            raise Strange(f"{name} can't be published: {answer}")


def bucket_of(store):
    return Bucket(store, f"fault-{uuid.uuid4().hex[:12]}").make()
