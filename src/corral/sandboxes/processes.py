"""Processes of this host that are not our children: whether one still lives, and its certain end."""

import os
import select
import signal
from pathlib import Path

from ._base import SandboxError

END_SECONDS = 20.0


def start_time(pid: int) -> str | None:
    """When the process began, in the kernel's ticks: with the pid it names one process. None when it has ended."""
    _, state, values = _status(pid)
    return None if state in "ZXx" else values[18]


def _status(pid: int) -> tuple[str, str, list[str]]:
    """Name, state (`X`: there is none) and the values after it, the parent's pid first: see proc_pid_stat(5)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return "", "X", []
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, *values = rest.split()
    return name, state, values


def end(pid: int, started: str) -> None:
    """Kill the process if it is the one that began then, and wait for its end. Raises SandboxError when it stays."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if start_time(pid) != started:
            return
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        waiter = select.poll()
        waiter.register(fd, select.POLLIN)
        if not waiter.poll(END_SECONDS * 1000):
            raise SandboxError(f"process {pid} did not end {END_SECONDS:.0f} s after it was killed")
    except ProcessLookupError:
        return
    finally:
        os.close(fd)


def reap(pid: int, name: str) -> None:
    """Take the exit status of a process that was left to us, as to PID 1 of a container; others are not touched."""
    found, _, values = _status(pid)
    if found != name or int(values[0]) != os.getpid():
        return
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        waiter = select.poll()
        waiter.register(fd, select.POLLIN)
        if waiter.poll(END_SECONDS * 1000):
            os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
    finally:
        os.close(fd)
