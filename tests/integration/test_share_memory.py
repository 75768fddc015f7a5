"""Sharing and importing take the same memory whatever the size."""
import pathlib
import re

from mixed_output import check
from sharing import field, random_file

HOSTS = ("native",)
IMAGES = ("base",)
STORES = True
LEAN = True
BOUND = 64 << 20
SIZE = 256 << 20
LARGE = 2 << 30


def reset_peak(worker):
    pathlib.Path(f"/proc/{worker.service.process.pid}/clear_refs").write_text("5", encoding="ascii")
    return worker.service.resident_bytes()


def peak(worker):
    status = pathlib.Path(f"/proc/{worker.service.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+([0-9]+) kB", status).group(1)) * 1024


def run(context):
    size = LARGE if context.options.large else SIZE
    with field(context, "ceph") as place:
        # With the defaults of sharing: parts as large and as many as they come.
        maker, taker = (place.worker(lean=True, multipartBytes=None, partBytes=None) for _ in range(2))
        for worker in (maker, taker):
            worker.context.timeout = 1800
            worker.listed()
        home = maker.provision({"memoryBytes": 2 * size + (256 << 20), "diskBytes": size + (64 << 20)})
        made = maker.make(random_file(size), home)
        maker.expect(204, "DELETE", home)
        before = reset_peak(maker)
        shared = maker.share(made["checkpointId"])
        grown = peak(maker) - before
        before = reset_peak(taker)
        taker.pull(shared["shared"])
        taken = peak(taker) - before
        context.say(f"{size >> 20} MiB: sharing took {grown >> 10} KiB, importing {taken >> 10} KiB")
        check(place.proxy.count("part-blob") > 1, "in parts")
        check(grown <= BOUND, f"sharing took {grown} bytes")
        check(taken <= BOUND, f"importing took {taken} bytes")
        taker.check_whole(made["checkpointId"])
        if not context.has_sanitizer():
            check(peak(maker) <= BOUND and peak(taker) <= BOUND, "more than that altogether")
