"""What the tests of sharing have in common: a bucket behind a proxy that does harm, and workers."""
import contextlib
import json
import secrets
import shutil
import threading
import time

from context import Failure
from faults import Hold, Proxy
from mixed_output import check
from s3 import Bucket

PREFIX = "shared/checkpoints"
PART = 5 << 20  # the smallest that the stores take
SECONDS = 120   # what is awaited comes at once; this is for machines that are busy
ENDED = ("local", "durable", "failed")


class Field:
    """One bucket of one store, a proxy in front of it, and the workers that share by it."""

    def __init__(self, context, name, tls=None):
        self.context = context
        self.name = name
        self.store = context.options.stores[name]
        self.bucket = Bucket(self.store, f"test-{secrets.token_hex(6)}").make()
        self.proxy = Proxy(self.store, tls)
        self.workers = []

    def credentials(self, user=None):
        user = user or self.store["users"][0]
        path = self.context.directory / f"credentials-{secrets.token_hex(4)}"
        path.touch(0o600)
        path.write_text(f"[default]\naws_access_key_id = {user['accessKey']}\n"
                        f"aws_secret_access_key = {user['secretKey']}\n", encoding="ascii")
        return str(path)

    def shared_store(self, **changes):
        """The configuration's `sharedStore`: large files are those of more than one small part."""
        found = {"endpoint": self.proxy.endpoint, "region": self.store["region"],
                 "bucket": self.bucket.name, "prefix": PREFIX, "pathStyle": True,
                 "multipartBytes": PART, "partBytes": PART,
                 "credentialsFile": self.credentials(), **changes}
        return {key: value for key, value in found.items() if value is not None}

    def worker(self, host=None, start=True, lean=False, settings=None, **changes):
        """A worker with a data directory of its own; `changes` are to `sharedStore`."""
        name = f"worker-{self.name}-{secrets.token_hex(4)}"
        config = {"sharedStore": self.shared_store(**changes), **(settings or {})}
        config = {key: value for key, value in config.items() if value is not None}
        made = Worker(self.context.other(name, host or self.context.host, config, lean), self)
        self.workers.append(made)
        if start:
            made.service.start()
        return made

    def manifest_key(self, checkpoint):
        return f"{PREFIX}/default/checkpoints/{checkpoint}/manifest.json"

    def blob_key(self, digest):
        return f"{PREFIX}/default/blobs/sha256/{digest.removeprefix('sha256:')}"

    def keys_of(self, worker, made):
        """All that a published checkpoint has in the bucket: manifest, archive, list of files."""
        return sorted([self.manifest_key(made["checkpointId"]), self.blob_key(made["archiveDigest"]),
                       self.blob_key(worker.files_digest(made["checkpointId"]))])

    def calm_down(self):
        """No more faults, and nothing of those who were killed reaches the store any more."""
        self.proxy.heal()
        await_true("the end of all requests", self.proxy.is_idle)

    def hold_after(self, kind):
        """Keeps the store's answer to the next request of that kind."""
        hold = Hold(after=True)
        self.proxy.fault(kind, hold, times=1)
        return hold

    def await_no_uploads(self):
        await_true("uploads that belong to nothing", lambda: not self.bucket.uploads())

    def close(self):
        self.proxy.heal()
        for worker in self.workers:
            worker.end()
        self.proxy.close()
        self.bucket.clear()


class Worker:
    """A service that shares. What it is asked is asked of the context that it stands on."""

    def __init__(self, context, field):
        self.context = context
        self.field = field

    def __getattr__(self, name):
        return getattr(self.context, name)

    def make(self, fill="head -c 100 /dev/urandom >file", execution=None, **more):
        """A new checkpoint of an execution that is filled by a script."""
        home = execution or self.context.provision()
        self.context.run_command(home, fill)
        made = self.context.expect(201, "POST", f"{home}/checkpoints", json=more).json()
        if not execution:
            self.context.expect(204, "DELETE", home)
        return made

    def share(self, checkpoint, status=200):
        return self.context.expect(status, "POST", f"/v1/checkpoints/{checkpoint}/share").json()

    def begin_share(self, checkpoint):
        return self.context.expect(202, "POST", f"/v1/checkpoints/{checkpoint}/share?wait=false").json()

    def get(self, checkpoint):
        return self.context.expect(200, "GET", f"/v1/checkpoints/{checkpoint}").json()

    def ids(self):
        return {item["checkpointId"]
                for item in self.context.expect(200, "GET", "/v1/checkpoints?limit=200").json()["items"]}

    def pull(self, reference, status=201):
        """Imports by reference: a checkpoint's `shared`, or what has its two members."""
        body = {"uri": reference["uri"], "digest": reference["digest"]}
        return self.context.expect(status, "POST", "/v1/checkpoints/import", json=body).json()

    def listed(self, query=""):
        return self.context.expect(200, "GET", f"/v1/shared-checkpoints{query}").json()

    def await_end(self, checkpoint):
        """The checkpoint once nothing is on its way any more."""
        await_true(f"the end of {checkpoint}", lambda: self.get(checkpoint)["durability"] in ENDED)
        return self.get(checkpoint)

    def restored(self, checkpoint):
        return self.context.expect(201, "POST", f"/v1/checkpoints/{checkpoint}/restore",
                                   json={"host": self.context.host}).json()

    def files_digest(self, checkpoint):
        """Of the list of the files: path, type, mode, size and digest of each."""
        return self.context.expect(200, "GET", f"/v1/checkpoints/{checkpoint}/manifest").json()["files"]

    def check_whole(self, checkpoint):
        answer = self.context.expect(200, "POST", f"/v1/checkpoints/{checkpoint}/verify").json()
        check(answer == {"ok": True, "problems": []}, f"{checkpoint}: {answer}")

    def left(self):
        """Directories of checkpoints on disk."""
        home = self.context.service.data / "checkpoints"
        return sorted(path.name for path in home.glob("*/*")) if home.exists() else []

    def forget(self):
        """Killed, and its data directory is gone."""
        self.context.service.kill()
        shutil.rmtree(self.context.service.data)

    def end(self):
        if self.context.service.process:
            self.context.clean()
            self.context.service.stop()
        self.context.service.check_errors()
        self.context.service.check_log()


@contextlib.contextmanager
def field(context, name, tls=None):
    made = Field(context, name, tls)
    try:
        yield made
    except BaseException:
        for worker in made.workers:
            worker.service.kill()
        made.proxy.close()
        raise
    made.close()


def each_store(context, test):
    for name in ("ceph", "swift"):
        with field(context, name) as made:
            started = time.monotonic()
            test(made)
            context.say(f"{name}: {test.__name__} ({time.monotonic() - started:.1f} s)")


def await_true(what, condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"not within {SECONDS} s: {what}")
        time.sleep(0.05)


def together(*calls):
    """Each on a thread of its own; their results in order, or what one of them raised."""
    results = [None] * len(calls)

    def call(number):
        try:
            results[number] = (calls[number](), None)
        except Exception as error:  # raised again below
            results[number] = (None, error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, error in results:
        if error:
            raise error
    return [result for result, _ in results]


def random_file(size, name="file"):
    """A script that writes bytes which do not compress."""
    return f"head -c {size} /dev/urandom >{name}"


def problem(answer):
    """Code of a problem document."""
    return json.loads(answer.body)["code"]
