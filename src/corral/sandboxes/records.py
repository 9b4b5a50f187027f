"""The directory of an installation's sandboxes: what lies where, who works on it, and which host uid is whose.

    <id>/meta.json     what was ordered and which process runs it; written before the start and after
        /control.sock  the supervisor's socket
        /workspace/    the sandbox's files: the only thing here that its commands see
        /spool/        output and status of each command
        /boot.log      what bwrap and the supervisor had to say
    .locks/            one of these is held while a sandbox is made or ended, so that two platforms cannot meet there

Everything here blocks.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ._base import SandboxError
from .processes import start_time
from .removal import remove_tree

FIRST_UID, UIDS = 300_000, 100_000
"""Host uids for the sandboxes of a platform that is root: one for each, so that none can touch another's processes."""
_LOCKS = 64


@dataclass
class Record:
    """What must be known of a sandbox by a platform that did not make it. Secrets are not in it."""

    working_dir: str
    env: dict[str, str] = field(default_factory=dict)
    host_uid: int = 0
    """0: it runs as the platform's own user."""
    cgroups: list[str] = field(default_factory=list)
    pid: int = 0
    """Of the supervisor; 0 while it is being started."""
    started: str = ""
    boot: str = ""
    monitor: int = 0
    """The pid of bwrap's own process outside."""

    def runs(self) -> bool:
        """Whether the supervisor lives."""
        return self.pid > 0 and self.boot == boot_id() and start_time(self.pid) == self.started


def boot_id() -> str:
    """Differs after each start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Place:
    """The directory of one sandbox."""

    def __init__(self, home: Path, name: str) -> None:
        self.home = home
        self.path = home / name
        self.workspace = self.path / "workspace"
        self.spool = self.path / "spool"
        self.log = self.path / "boot.log"
        self._meta = self.path / "meta.json"

    def load(self) -> Record | None:
        """The record, or None when none was written yet. Raises SandboxError for one that cannot be read."""
        try:
            values: dict[str, Any] = json.loads(self._meta.read_text("utf-8"))
            return Record(**values)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise SandboxError(f"{self._meta} is damaged ({error}); destroy the sandbox") from error

    def save(self, record: Record) -> None:
        """Write the record so that a crash leaves the old one or the new one."""
        temporary = self._meta.with_suffix(".new")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(asdict(record), file)
        temporary.replace(self._meta)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else makes or ends this sandbox meanwhile; waits for who does."""
        with _lock(self.home, f"{zlib.crc32(self.path.name.encode()) % _LOCKS:02d}"):
            yield

    def make(self, own_uid: bool) -> int:
        """Make the directories; the host uid of the sandbox. A workspace that exists keeps its owner."""
        self.path.mkdir(mode=0o711, exist_ok=True)  # passable for the sandbox's uid, not readable
        with _lock(self.home, "uids"):
            self.workspace.mkdir(mode=0o700, exist_ok=True)
            uid = self._uid() if own_uid else 0
            if uid:
                os.chown(self.workspace, uid, uid)
        self.spool.mkdir(mode=0o700, exist_ok=True)
        if uid:
            os.chown(self.spool, uid, uid)
        return uid

    def clear(self) -> None:
        """Remove all but the workspace."""
        with os.scandir(self.path) as found:
            for entry in list(found):
                path = Path(entry.path)
                if path == self.workspace:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(path)
                else:
                    path.unlink()

    def _uid(self) -> int:
        owner = self.workspace.stat().st_uid
        if FIRST_UID <= owner < FIRST_UID + UIDS:
            return owner
        taken = {
            status.st_uid
            for name in names(self.home, hidden=True)
            if (status := _stat(Place(self.home, name).workspace))
        }
        first = zlib.crc32(str(self.path).encode()) % UIDS  # apart from those of another installation, very likely
        for step in range(UIDS):
            uid = FIRST_UID + (first + step) % UIDS
            if uid not in taken:
                return uid
        raise SandboxError(f"all {UIDS} host uids for sandboxes are taken; destroy sandboxes that are over")


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


@contextmanager
def _lock(home: Path, name: str) -> Iterator[None]:
    directory = home / ".locks"
    directory.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def names(home: Path, *, hidden: bool = False) -> list[str]:
    """The sandboxes that have a directory; `hidden` ones are those of probes."""
    try:
        with os.scandir(home) as found:
            return sorted(
                entry.name
                for entry in found
                if entry.is_dir(follow_symlinks=False)
                and (entry.name.startswith(".probe-") if entry.name.startswith(".") else True)
                and (hidden or not entry.name.startswith("."))
            )
    except FileNotFoundError:
        return []
