"""What moves bytes on the native host, against pipelines of the usual tools."""
import os
import pathlib
import shutil
import subprocess

from lib.sampling import compared, interleaved, timed
from lib.wire import WireError

OUTPUT_BYTES = 64 << 20
OUTPUT_BAR = 3
CHECKPOINT_BAR = 1.3
FILES = 5000
TREE_BYTES = 512 << 20
TREE = {"memoryBytes": 2 << 30, "diskBytes": 1 << 30}


def shell(script, directory):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=directory,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WireError(f"{script}: {done.stderr.strip()}")


def output(bench):
    """native-output: kept on disk on both sides."""
    service = bench.native_service()
    directory = bench.path("output")
    os.makedirs(directory)
    shell(f"head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x >bytes", directory)
    try:
        execution = service.provision(maxOutputBytes=OUTPUT_BYTES, diskBytes=OUTPUT_BYTES + (1 << 20),
                                      memoryBytes=4 * OUTPUT_BYTES)
        service.execute(execution, "sh", ["-c", f"head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x >bytes"])

        def ours():
            spent, ended = timed(service.execute, execution, "cat", ["bytes"])
            if ended["stdoutBytes"] != OUTPUT_BYTES:
                raise WireError("output was lost")
            return spent

        def pipe():
            spent = timed(shell, "cat bytes | cat >kept && sync kept", directory)[0]
            os.unlink(f"{directory}/kept")
            return spent

        figures = interleaved(bench.samples, ours, pipe)
    finally:
        service.stop()
        shutil.rmtree(directory)
    return [compared("native-output", "64 MiB of output, kept on disk",
                     "`cat` through a pipe into a file, with fsync", "ms", figures, OUTPUT_BAR)]


def fill(tree):
    """Every other file is random, the rest is one letter."""
    tree.mkdir()
    size = TREE_BYTES // FILES
    for number in range(FILES):
        (tree / f"f{number}").write_bytes(os.urandom(size) if number % 2 == 0 else b"y" * size)


def upload(service, execution, directory):
    """The same tree into an execution."""
    host, port = service.address
    shell(f"tar -c tree | curl -sS --fail -T - http://{host}:{port}/v1/executions/{execution}/archive",
          directory)


# OpenSSL's digest uses the processor's instructions for it, which sha256sum of Debian does not.
DIGEST = "openssl dgst -sha256 -r"
PACK = (f"{DIGEST} <first >plain & {DIGEST} <second >packed & "
        "tar -c -h tree | tee first | zstd -q -1 -T2 | tee second >kept && wait && sync kept")
UNPACK = (f"test \"$({DIGEST} <kept)\" = \"$(<packed)\" && {{{{ {DIGEST} <first >again & }}}} && "
          "zstd -q -d <kept | tee first | tar -x -C {target} && wait && cmp plain again")
WARM_UP = 1


def checkpoint(bench):
    """native-checkpoint, native-restore: 512 MiB, half of it compressible, in 5,000 files; the
    pipeline's files lie in memory as the workspace does."""
    service = bench.native_service()
    directory = bench.memory_path()
    directory.mkdir()
    kept = pathlib.Path(bench.path("kept"))
    kept.mkdir()
    restored = ([], [])
    try:
        fill(directory / "tree")
        os.symlink(directory / "tree", kept / "tree")
        for fifo in ("first", "second"):
            os.mkfifo(kept / fifo)
        execution = service.provision(**TREE)
        upload(service, execution, directory)

        def ours():
            # The pipeline may have taken longer than an idle connection is kept.
            service.connection.close()
            spent, made = timed(service.call, "POST", f"/v1/executions/{execution}/checkpoints", {})
            name = f"/v1/checkpoints/{made['checkpointId']}"
            back, copy = timed(service.call, "POST", f"{name}/restore", {})
            restored[0].append(back)
            service.terminate(copy["executionId"])
            service.call("DELETE", name)
            return spent

        def pipeline():
            (kept / "kept").unlink(missing_ok=True)
            spent = timed(shell, PACK, kept)[0]
            target = directory / "restored"
            target.mkdir()
            restored[1].append(timed(shell, UNPACK.format(target=target), kept)[0])
            shutil.rmtree(target)
            return spent

        figures = interleaved(bench.samples, ours, pipeline, warm_up=WARM_UP)
    finally:
        service.stop()
        shutil.rmtree(directory)
        shutil.rmtree(kept)
    return [
        compared("native-checkpoint", "POST …/checkpoints, 512 MiB in 5,000 files",
                 "tar, sha256, zstd -1 -T2, sha256, fsync in one pipeline", "ms", figures,
                 CHECKPOINT_BAR),
        compared("native-restore", "POST …/restore of it", "the same backwards, digests verified",
                 "ms", tuple(side[WARM_UP:] for side in restored), CHECKPOINT_BAR),
    ]
