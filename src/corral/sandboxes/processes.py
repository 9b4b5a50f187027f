"""Processes of this host that are not our children: whether one still lives, and its certain end."""

import os
import select
import signal
from pathlib import Path

from ._base import SandboxError

END_SECONDS = 20.0


def start_time(pid: int) -> str | None:
    """When the process began, in the kernel's ticks: with the pid it names one process. None when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, *values = text.rpartition(")")[2].split()
    return None if state in "ZXx" else values[18]


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
