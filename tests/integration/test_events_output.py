"""Raw output in ranges."""
import hashlib
import random

from mixed_output import MIB, OUTPUT, check, mixed

LEAN = True


def run(context):
    path, digest = mixed(context)
    before = context.service.resident_bytes()
    whole = context.expect(200, "GET", f"{path}/stdout").body
    check(len(whole) == OUTPUT and hashlib.sha256(whole).hexdigest() == digest, "whole")
    for _ in range(200):
        first = random.randrange(OUTPUT)
        last = min(OUTPUT - 1, first + random.choice((0, 1, 65535, 65536, 65537, 300000)))
        part = context.expect(206, "GET", f"{path}/stdout",
                              headers={"Range": f"bytes={first}-{last}"})
        check(part.body == whole[first:last + 1], f"bytes {first}-{last}")
    grown = context.service.resident_bytes() - before
    context.say(f"the service grew by {grown // 1024} KiB")
    check(grown < (64 if context.has_sanitizer() else 4) * MIB, "that is not constant memory")
