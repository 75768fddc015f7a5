"""Tar archives as rows write them: {"$tar": [entry, …]} or {"$tar": {"entries": […], "as": "gzip"}}.

An entry is {"name", "content"?, "type"?, "target"?, "mode"?, "mtime"?}; a name that ends in "/" is a
directory, type is one of file, directory, symlink, hardlink, fifo, device. The value is the archive
as text of latin-1 bytes.
"""
import gzip
import io
import tarfile

TYPES = {"file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE,
         "hardlink": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "device": tarfile.CHRTYPE}
ZSTD_BLOCK = 64 * 1024


def zstd(data):
    """One frame of blocks that are stored as they are (RFC 8878)."""
    frame = b"\x28\xb5\x2f\xfd\x00\x38"
    blocks = [data[at:at + ZSTD_BLOCK] for at in range(0, len(data), ZSTD_BLOCK)]
    for index, block in enumerate(blocks):
        last = index == len(blocks) - 1
        frame += (len(block) << 3 | last).to_bytes(3, "little") + block
    return frame


FORMS = {"plain": lambda data: data, "gzip": gzip.compress, "zstd": zstd}


def member(entry):
    info = tarfile.TarInfo(entry["name"])
    kind = "directory" if entry["name"].endswith("/") else "file"
    info.type = TYPES[entry.get("type", kind)]
    info.linkname = entry.get("target", "")
    info.mode = int(entry.get("mode", "0755" if info.isdir() else "0644"), 8)
    info.mtime = entry.get("mtime", 1700000000)
    info.uid = info.gid = 12345
    return info


def make(argument):
    if isinstance(argument, list):
        argument = {"entries": argument}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in argument["entries"]:
            info = member(entry)
            content = entry.get("content", "").encode("latin-1")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return FORMS[argument.get("as", "plain")](out.getvalue()).decode("latin-1")
