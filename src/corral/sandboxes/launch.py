"""Starts and ends sandboxes: bwrap through the boot part of the guest program, until its supervisor answers. Blocks."""

import json
import os
import select
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from . import bubblewrap, cgroups, processes, supervisor
from ._base import SandboxError, SandboxGone, SandboxSpec
from .guest import Guest
from .records import Place, Record, boot_id

START_SECONDS = 30.0
_TMP = Path("/tmp")
"""Where boot shows directories; only bwrap sees them there."""


@dataclass(frozen=True)
class Means:
    """What sandboxes are made with on this machine."""

    program: bubblewrap.Program
    guest: Guest
    etc: Path
    watch_memory: bool
    """No cgroup limits memory, so supervisors shall."""


@dataclass
class _Started:
    """What became known of the processes so far."""

    monitor: int = 0
    """bwrap's process outside; it ends with the sandbox, and not the other way round."""
    pid: int = 0


def launch(place: Place, record: Record, spec: SandboxSpec, secrets: Mapping[str, bytes], means: Means) -> None:
    """Start the sandbox and complete its record. Raises SandboxError with what bwrap said.

    When it fails nothing is left running.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    started = _Started()
    try:
        with ExitStack() as stack:
            fds = bubblewrap.Descriptors(stack)
            fds.add(writer)
            shown = _shown(place, record, means)
            handed = bubblewrap.Handed(
                control=fds.add(supervisor.listen(place.path).detach()),
                spool=fds.open(place.spool, os.O_RDONLY | os.O_DIRECTORY),
                info=writer,
                guest=means.guest.data,
                workspace=_TMP / "workspace" if shown else place.workspace,
                etc=_TMP / "etc" if shown else means.etc,
                watch_memory=means.watch_memory,
            )
            arguments = bubblewrap.arguments(spec, secrets, handed, fds)
            command, env = _boot(means, fds, writer, [*shown, *_joined(record, fds)], arguments)
            _spawn(command, env, place.log, fds.all)
        _await_pids(reader, started)
        if supervisor.Supervisor(place.path).ping(START_SECONDS) != started.pid:
            raise SandboxError("another process than the sandbox answers on its control socket")
        record.pid, record.started, record.boot = started.pid, processes.start_time(started.pid) or "", boot_id()
        record.monitor = started.monitor
        place.save(record)
    except BaseException as error:
        for pid in (started.monitor, started.pid):
            if pid and (since := processes.start_time(pid)):
                processes.end(pid, since)
        record.monitor = started.monitor
        stop(place, record)
        if isinstance(error, (OSError, SandboxError)):
            raise SandboxError(f"the sandbox did not start: {_said(place.log) or error}") from error
        raise
    finally:
        os.close(reader)


def stop(place: Place, record: Record | None) -> None:
    """End the sandbox's processes, if it has any, and remove its cgroups. Raises SandboxError, OSError."""
    if record is not None and record.runs():
        processes.end(record.pid, record.started)
    else:  # a platform that died while it started the sandbox left no pid; whoever holds the socket is alive
        try:
            pid = supervisor.Supervisor(place.path).ping(timeout=10)
        except SandboxGone:
            pid = 0
        if pid and (since := processes.start_time(pid)):
            processes.end(pid, since)
    if record is not None:
        cgroups.remove(record.cgroups)
        processes.reap(record.monitor, "bwrap")


def _shown(place: Place, record: Record, means: Means) -> list[str]:
    """Options of boot that make directories reachable for the sandbox's uid; none when they are."""
    parents = {*place.workspace.parents, *means.etc.parents}
    if not record.host_uid or all(parent.stat().st_mode & stat.S_IXOTH for parent in parents):
        return []
    return ["-b", f"workspace={place.workspace}", "-b", f"etc={means.etc}"]


def _joined(record: Record, fds: bubblewrap.Descriptors) -> list[str]:
    """Options of boot for the groups to join and the uid to take."""
    uid = ["-u", str(record.host_uid)] if record.host_uid else []
    files = [fds.open(Path(group, "cgroup.procs"), os.O_WRONLY) for group in record.cgroups]
    return [part for fd in files for part in ("-c", str(fd))] + uid


def _boot(
    means: Means, fds: bubblewrap.Descriptors, writer: int, options: Sequence[str], arguments: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """The command line of the boot part, and its environment.

    bwrap and its libraries go by descriptor: the uid of the sandbox may not be able to reach their paths.
    """
    program = fds.open(means.program.path, os.O_PATH)
    data = fds.data(b"".join(os.fsencode(part) + b"\0" for part in arguments))
    env = {}
    if means.program.libraries is not None:
        env["LD_LIBRARY_PATH"] = f"/proc/self/fd/{fds.open(means.program.libraries, os.O_PATH | os.O_DIRECTORY)}"
    command = [str(means.guest.path), "boot", "-x", str(program), "-i", str(writer), *options]
    return [*command, "--", "bwrap", "--args", str(data), "--", "/.sbx", "init"], env


def _spawn(command: Sequence[str], env: Mapping[str, str], log: Path, fds: Sequence[int]) -> None:
    """Run the boot part, which ends when it has forked what becomes bwrap."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=dict(env),
            cwd="/",
            pass_fds=fds,
            timeout=START_SECONDS,
            check=False,
        )
    if done.returncode:
        raise SandboxError(f"the guest program ended with code {done.returncode}")


def _await_pids(reader: int, started: _Started) -> None:
    """Read what boot and bwrap write: the monitor's pid and a line's end, then a JSON object with `child-pid`."""
    end = time.monotonic() + START_SECONDS
    waiter = select.poll()
    waiter.register(reader, select.POLLIN)
    text = b""
    while b"}" not in text:  # it comes in pieces
        if not waiter.poll(max(0.0, end - time.monotonic()) * 1000):
            raise SandboxError(f"bwrap was not ready after {START_SECONDS:.0f} s")
        data = os.read(reader, 4096)
        if not data:
            raise SandboxError("bwrap ended")
        text += data
        if not started.monitor and b"\n" in text:
            started.monitor = int(text.partition(b"\n")[0])
    started.pid = int(json.loads(text.partition(b"\n")[2])["child-pid"])


def _said(log: Path) -> str:
    """The end of the log, on one line."""
    try:
        return " ".join(log.read_text("utf-8", "replace")[-600:].split())
    except OSError:
        return ""
