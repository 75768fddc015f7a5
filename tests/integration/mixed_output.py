"""What the tests of events share: a mixed output of 10 MiB, and a check."""
from context import Failure

MIB = 1024 * 1024
OUTPUT = 10 * MIB
ROOMY = {"diskBytes": 32 * MIB, "memoryBytes": 128 * MIB, "maxOutputBytes": 32 * MIB}
# Half any bytes, half text of one to four bytes a character; its digest goes to standard error.
MIXED = ("head -c 5242880 /dev/urandom >f; "
         "yes 'aä€😀 and so on\n' | head -c 5242880 >>f; sha256sum f >&2; cat f; rm f")


def check(condition, text):
    if not condition:
        raise Failure(text)


def mixed(context):
    """The path of a command that wrote MIXED, and the digest of that as the program says."""
    path = context.run_command(context.provision(ROOMY), MIXED)
    return path, context.expect(200, "GET", f"{path}/stderr").body.decode().split()[0]
