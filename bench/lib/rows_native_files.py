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
            return timed(shell, "cat bytes | cat >kept && sync kept && rm kept", directory)[0]

        figures = interleaved(bench.samples, ours, pipe)
    finally:
        service.stop()
        shutil.rmtree(directory)
    return [compared("native-output", "64 MiB of output, kept on disk",
                     "`cat` through a pipe into a file, with fsync", "ms", figures, OUTPUT_BAR)]


FILL = f"""
mkdir -p tree && cd tree && i=0
while [ $i -lt {FILES} ]; do
    if [ $((i % 2)) = 0 ]; then
        head -c {TREE_BYTES // FILES} /dev/urandom >f$i
    else
        head -c {TREE_BYTES // FILES} /dev/zero | tr '\\0' y >f$i
    fi
    i=$((i + 1))
done
"""
PACK = ("tar -c tree | tee >(sha256sum >plain) | zstd -q -1 -T2 | tee >(sha256sum >packed) >kept && "
        "sync kept")
UNPACK = ("sha256sum kept >again && zstd -q -d <kept | tee >(sha256sum >plain) | "
          "tar -x -C {target}")


def checkpoint(bench):
    """native-checkpoint, native-restore: 512 MiB, half of it compressible, in 5,000 files; the
    pipeline's files lie in memory as the workspace does."""
    service = bench.native_service()
    directory = pathlib.Path("/dev/shm") / pathlib.Path(bench.path("tree")).name
    directory.mkdir()
    kept = pathlib.Path(bench.path("kept"))
    kept.mkdir()
    restored = ([], [])
    try:
        shell(FILL, directory)
        os.symlink(directory / "tree", kept / "tree")
        execution = service.provision(**TREE)
        service.execute(execution, "sh", ["-c", FILL])

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
            spent = timed(shell, PACK.replace("tar -c tree", "tar -c -h tree"), kept)[0]
            target = directory / "restored"
            target.mkdir()
            restored[1].append(timed(shell, UNPACK.format(target=target), kept)[0])
            shutil.rmtree(target)
            return spent

        figures = interleaved(max(5, bench.samples // 3), ours, pipeline, warm_up=1)
    finally:
        service.stop()
        shutil.rmtree(directory)
        shutil.rmtree(kept)
    return [
        compared("native-checkpoint", "POST …/checkpoints, 512 MiB in 5,000 files",
                 "tar, sha256, zstd -1 -T2, sha256, fsync in one pipeline", "ms", figures,
                 CHECKPOINT_BAR),
        compared("native-restore", "POST …/restore of it", "the same backwards, digests verified",
                 "ms", tuple(side[1:] for side in restored), CHECKPOINT_BAR),
    ]
