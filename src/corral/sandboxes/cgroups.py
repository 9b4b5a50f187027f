"""Memory, process and CPU limits by control groups: v2 (as root or delegated), v1 (as root), or none.

Without them the supervisor watches memory, and processes are limited by RLIMIT_NPROC. Everything here blocks.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ._base import Limits

_PERIOD = 100_000
_REMOVE_SECONDS = 5.0
ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Groups:
    """Where this platform makes groups: one parent for v2, one for each controller for v1."""

    version: int
    parents: dict[str, Path]
    """By controller: memory, pids, cpu. All the same for v2."""

    def paths(self, name: str) -> list[str]:
        """Where the groups of a sandbox are, made or not."""
        return sorted({str(parent / name) for parent in self.parents.values()})

    def create(self, name: str, limits: Limits) -> None:
        """Make the groups of a sandbox and set its limits. Raises OSError."""
        groups = {controller: parent / name for controller, parent in self.parents.items()}
        for group in set(groups.values()):
            group.mkdir(exist_ok=True)
        for controller, group in groups.items():
            for file, value in self._settings(controller, limits):
                if (group / file).exists():
                    (group / file).write_text(value)

    def _settings(self, controller: str, limits: Limits) -> list[tuple[str, str]]:
        memory, quota = str(limits.memory), str(int(limits.cpus * _PERIOD))
        if controller == "pids":
            return [("pids.max", str(limits.processes))]
        if self.version == 1:
            if controller == "cpu":
                return [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", quota)]
            return [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]
        if controller == "cpu":
            return [("cpu.max", f"{quota} {_PERIOD}")]
        return [("memory.max", memory), ("memory.swap.max", "0")]


def detect(root: Path = ROOT) -> Groups | None:
    """The groups that work here, or None. In a delegated v2 group it moves this process into a leaf, as v2 demands."""
    try:
        own = _own_groups(Path("/proc/self/cgroup").read_text())
        if (root / "cgroup.controllers").exists():
            return _v2(root if os.geteuid() == 0 else root / own.get("", "").lstrip("/"))
        return _v1(root, own) if os.geteuid() == 0 else None
    except OSError:
        return None


def _own_groups(text: str) -> dict[str, str]:
    """This process's group for each v1 controller, and under "" for v2, from /proc/self/cgroup."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _v2(parent: Path) -> Groups | None:
    control = parent / "cgroup.subtree_control"
    have = (parent / "cgroup.controllers").read_text().split()
    wanted = [controller for controller in ("memory", "pids", "cpu") if controller in have]
    if not {"memory", "pids"} <= set(wanted) or not os.access(control, os.W_OK):
        return None
    missing = [controller for controller in wanted if controller not in control.read_text().split()]
    if missing:
        if (parent / "cgroup.type").exists():  # any but the real root may have controllers or processes, not both
            leaf = parent / "platform"
            leaf.mkdir(exist_ok=True)
            for pid in (parent / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
        control.write_text(" ".join(f"+{controller}" for controller in missing))
    return Groups(2, dict.fromkeys(wanted, parent))


def _v1(root: Path, own: dict[str, str]) -> Groups | None:
    parents = {}
    for controller in ("memory", "pids", "cpu"):
        parent = root / controller / own.get(controller, "").lstrip("/")
        if (parent / "cgroup.procs").exists() and os.access(parent, os.W_OK):
            parents[controller] = parent
    return Groups(1, parents) if {"memory", "pids"} <= set(parents) else None


def remove(groups: Sequence[str]) -> None:
    """Remove the groups of a sandbox that has ended, waiting for the last process to leave. Absent ones are fine.

    Raises OSError when processes stay.
    """
    end = time.monotonic() + _REMOVE_SECONDS
    for group in groups:
        while True:
            try:
                Path(group).rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.005)
