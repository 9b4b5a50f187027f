"""Ctrl-C and SIGTERM as an event: the first asks, the second ends the program at once."""

import os
import signal

import anyio
from anyio.abc import TaskStatus

from corral.cli.failures import INTERRUPTED


class Interruption:
    """Whether the user asked to stop. Until `handled` is set, asking cancels `scope`; after that, somebody waits for
    `asked` and ends things in order."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.scope = anyio.CancelScope()
        self.handled = False

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        """Receive signals until cancelled."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                if self.asked.is_set():
                    os._exit(INTERRUPTED)
                self.asked.set()
                if not self.handled:
                    self.scope.cancel()
