"""Work on open files that came out of a sandbox: they may be anything, so `fstat` decides first. Blocks."""

import os
import stat
from itertools import islice

from ._base import Entry, SandboxError

CHUNK = 1 << 20
MOST_NAMES = 200_000


def _regular(fd: int) -> os.stat_result:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise SandboxError("not a regular file")
    return status


def read(fd: int, limit: int) -> bytes:
    """All bytes of a regular file. Raises SandboxError when it is none or has more than `limit` bytes."""
    size = _regular(fd).st_size
    parts, left = [], limit + 1
    while size <= limit and left > 0 and (part := os.read(fd, min(left, CHUNK))):
        parts.append(part)
        left -= len(part)
    if size > limit or left <= 0:
        raise SandboxError(f"larger than {limit} bytes")
    return b"".join(parts)


def write(fd: int, data: bytes) -> None:
    """Write all bytes into a regular file. Raises SandboxError when it is none, OSError when the disk is full."""
    _regular(fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[:CHUNK]) :]


def copy(source: int, target: int) -> int:
    """Copy a file's bytes into a regular file; how many. Raises as `write` does."""
    _regular(target)
    total = 0
    while data := os.read(source, CHUNK):
        write(target, data)
        total += len(data)
    return total


def entries(fd: int, limit: int) -> list[Entry]:
    """The first `limit` entries of a directory by name; links are described themselves."""
    with os.scandir(fd) as found:
        names = sorted(entry.name for entry in islice(found, MOST_NAMES))[:limit]
    out = []
    for name in names:
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            continue  # gone since the listing
        out.append(Entry(name, status.st_size, stat.S_IMODE(status.st_mode), stat.S_ISDIR(status.st_mode)))
    return out
