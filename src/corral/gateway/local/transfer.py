"""What every way of fetching weights shares: the error, progress, digests, and room on the disk."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from anyio import from_thread

Progress = Callable[[str, int, int, str], None]
"""Called with (stage, done, total, source), in bytes; stage is download, join or verify."""

CHUNK = 1 << 20
_MARGIN = 64 << 20


class WeightsUnavailable(Exception):
    """The weights could not be had. `fix` says what the operator can do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class SourceFailed(Exception):
    """One source did not deliver; another may."""


def silent(stage: str, done: int, total: int, source: str) -> None:
    """The progress callback of a caller that shows none."""


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hex. For a worker thread: it reads the whole file, and stops when its task is cancelled."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            from_thread.check_cancelled()
            state.update(block)
    return state.hexdigest()


def size_of(path: Path) -> int:
    """The file's size in bytes; 0 when it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def require_space(folder: Path, need: int) -> None:
    """Raises WeightsUnavailable when the folder's disk has less than `need` bytes (and a margin) free."""
    free = shutil.disk_usage(folder).free
    if free < need + _MARGIN:
        raise WeightsUnavailable(
            f"{folder} has {free / 1e9:.1f} GB free and the weights need {(need + _MARGIN) / 1e9:.1f} GB",
            "free some space, or set CORRAL_HOME to a folder on a larger disk",
        )
