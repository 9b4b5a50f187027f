"""Deletes a directory that hostile programs filled: any depth, odd modes, links that lead out. Blocks."""

import os
import stat
from pathlib import Path

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _open_writable(name: str, parent: int | None = None) -> int:
    """Open a directory of ours, and give us all rights in it."""
    try:
        fd = os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            Path(f"/proc/self/fd/{path}").chmod(stat.S_IRWXU)
        finally:
            os.close(path)
        fd = os.open(name, _OPEN, dir_fd=parent)
    if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(fd, stat.S_IRWXU)
    return fd


def _remove_files(fd: int) -> list[str]:
    """Delete all but the directories in a directory; the names of those."""
    directories = []
    with os.scandir(fd) as found:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_directory in names:
        if is_directory:
            directories.append(name)
        else:
            os.unlink(name, dir_fd=fd)
    return directories


def remove_tree(path: Path) -> None:
    """Delete a directory and all below it; an absent one is fine. Nothing else may work in it. Raises OSError.

    It holds one descriptor and goes down and up by names: neither recursion nor open files limit the depth.
    """
    try:
        here = _open_writable(str(path))
    except FileNotFoundError:
        return
    above: list[tuple[str, list[str]]] = []
    try:
        left = _remove_files(here)
        while left or above:
            if left:
                above.append((left.pop(), left))
                here = _step(here, _open_writable(above[-1][0], here))
                left = _remove_files(here)
            else:
                name, left = above.pop()
                here = _step(here, os.open("..", _OPEN, dir_fd=here))
                os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)
    path.rmdir()


def _step(here: int, there: int) -> int:
    os.close(here)
    return there
