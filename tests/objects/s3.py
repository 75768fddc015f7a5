#!/usr/bin/python3
"""A small S3 client: how tests look into a bucket, and put things into it, without the service."""
import datetime
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
LISTED = HERE.parents[1] / "build/objects/servers.json"


class S3Error(Exception):
    """A store answered something else than was needed."""


class Stores:
    """The running object stores: those of $EXECHOST_OBJECTS, which `script/test` starts, else of a
    tests/objects/servers of its own, which `close` ends."""

    def __init__(self, directory):
        self.process = None
        listed = os.environ.get("EXECHOST_OBJECTS")
        if not listed:
            listed = pathlib.Path(directory) / "servers.json"
            self.process = subprocess.Popen(
                [str(HERE / "servers"), "--directory", str(directory)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE)
            if self.process.stdout.readline() != b"ready\n":
                raise S3Error("the object stores did not start")
        self.known = json.loads(pathlib.Path(listed).read_text(encoding="utf-8"))

    def __getitem__(self, name):
        return self.known[name]

    def close(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


class Bucket:
    """One bucket of a store, as one of its users. Keys are text; bodies are bytes."""

    def __init__(self, store, name, user=0):
        parts = urllib.parse.urlsplit(store["endpoint"])
        self.address = (parts.hostname, parts.port)
        self.region = store["region"]
        self.user = store["users"][user]
        self.name = name

    def make(self):
        self.expect({200}, "PUT")
        return self

    def put(self, key, body, headers=None):
        self.expect({200}, "PUT", key, body=body, headers=headers)

    def get(self, key):
        return self.expect({200}, "GET", key)[2]

    def delete(self, key):
        self.expect({200, 204}, "DELETE", key)

    def keys(self, prefix=""):
        """All keys, sorted."""
        return sorted(self.pages({"list-type": "2", "prefix": prefix}, "Contents",
                                 {"ContinuationToken": "continuation-token"}, ("Key",)))

    def uploads(self):
        """Multipart uploads that were neither completed nor aborted: key and id of each."""
        return sorted(self.pages({"uploads": ""}, "Upload",
                                 {"KeyMarker": "key-marker", "UploadIdMarker": "upload-id-marker"},
                                 ("Key", "UploadId")))

    def abort_uploads(self):
        for key, upload in self.uploads():
            self.expect({204}, "DELETE", key, {"uploadId": upload})

    def clear(self):
        self.abort_uploads()
        for key in self.keys():
            self.delete(key)

    def pages(self, query, element, markers, fields):
        found = []
        more = {}
        while more is not None:
            answer = xml.etree.ElementTree.fromstring(self.expect({200}, "GET", "", {**query, **more})[2])
            for node in answer.iter():
                node.tag = node.tag.rpartition("}")[2]
            for item in answer.iter(element):
                values = tuple(item.findtext(field) for field in fields)
                found.append(values if len(fields) > 1 else values[0])
            more = None
            if answer.findtext("IsTruncated") == "true":
                more = {name: answer.findtext("Next" + field) for field, name in markers.items()}
        return found

    def expect(self, statuses, method, key="", query=None, body=b"", headers=None):
        answer = self.request(method, key, query, body, headers)
        if answer[0] not in statuses:
            raise S3Error(f"{method} {self.name}/{key}: {answer[0]} {answer[2][:300]!r}")
        return answer

    def request(self, method, key="", query=None, body=b"", headers=None):
        """Status, headers by name in lower case, and body."""
        path = f"/{self.name}" + (f"/{quote(key, '/')}" if key else "")
        pairs = sorted((quote(name), quote(value)) for name, value in (query or {}).items())
        text = "&".join(f"{name}={value}" for name, value in pairs)
        signed = self.sign(method, path, text, body, headers or {})
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        try:
            connection.request(method, path + (f"?{text}" if text else ""), body, signed)
            answer = connection.getresponse()
            return (answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def sign(self, method, path, query, body, headers):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        content = hashlib.sha256(body).hexdigest()
        sent = {"Host": f"{self.address[0]}:{self.address[1]}", "X-Amz-Date": now,
                "X-Amz-Content-Sha256": content, **headers}
        lower = sorted((name.lower(), value.strip()) for name, value in sent.items())
        names = ";".join(name for name, _ in lower)
        canonical = "\n".join([method, path, query, *(f"{n}:{v}" for n, v in lower), "", names, content])
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, sha256(canonical)])
        key = ("AWS4" + self.user["secretKey"]).encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        sent["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.user['accessKey']}/{scope}, "
                                 f"SignedHeaders={names}, Signature={signature}")
        return sent


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe)


def main():
    """s3.py make STORE BUCKET: for trying things by hand, with a store that runs."""
    if len(sys.argv) != 4 or sys.argv[1] != "make":
        sys.exit("usage: s3.py make STORE BUCKET")
    store = json.loads(LISTED.read_text(encoding="utf-8"))[sys.argv[2]]
    Bucket(store, sys.argv[3]).make()


if __name__ == "__main__":
    main()
