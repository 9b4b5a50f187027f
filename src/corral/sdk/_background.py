"""The one event loop of the SDK, in a thread of its own: every call of the program runs there.

So a call works the same in a script, in a thread, and inside a running event loop, all of them share the connections,
and none of them needs a loop of its own. The thread starts with the first call and ends with the program. A forked
child does not inherit it and starts a new one.
"""

import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from .errors import UsageError

T = TypeVar("T")
C = TypeVar("C", bound=AbstractAsyncContextManager[Any])

NAME = "corral-sdk"
_CLOSING_SECONDS = 5.0


class _Background:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None
        self.shared: dict[Any, AbstractAsyncContextManager[Any]] = {}

    def portal(self) -> BlockingPortal:
        if threading.current_thread().name == NAME:
            raise UsageError(
                "a call of the SDK was made on the SDK's own thread, which would wait for itself",
                "Make it in the program's own code, not in a callback of the SDK.",
            )
        with self._lock:
            if self._portal is None:
                ready: Future[BlockingPortal] = Future()
                # A daemon, since Python waits for all others before it calls what `atexit` knows.
                self._thread = threading.Thread(target=anyio.run, args=(self._serve, ready), name=NAME, daemon=True)
                self._thread.start()
                self._portal = ready.result()
            return self._portal

    def close(self) -> None:
        with self._lock:
            portal, thread, self._portal, self._thread = self._portal, self._thread, None, None
        if portal is not None and thread is not None:
            # Iterations that nobody ends would keep the loop, and the program, alive.
            portal.call(portal.stop, True)
            thread.join()

    async def _serve(self, ready: Future[BlockingPortal]) -> None:
        async with BlockingPortal() as portal:
            ready.set_result(portal)
            await portal.sleep_until_stopped()
        # By now calls that were given up have cleaned up, for which they needed the connections.
        with anyio.move_on_after(_CLOSING_SECONDS):
            while self.shared:
                await self.shared.popitem()[1].__aexit__(None, None, None)


_background = _Background()


def _forked() -> None:
    global _background
    _background = _Background()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def close() -> None:
    """Close the connections and end the thread; the next call starts a new one."""
    _background.close()


async def shared(key: Any, make: Callable[[], C]) -> C:
    """What the loop has for the key; it is made when it is asked for first, and closed when the loop ends."""
    known = _background.shared
    if key not in known:
        made = make()
        known[key] = made
        await made.__aenter__()
    found: C = known[key]  # type: ignore[assignment]
    return found


def start(work: Callable[[], Awaitable[T]]) -> Future[T]:
    """Begin the work on the loop. Cancelling the future cancels the work. Raises UsageError on the loop's thread."""
    return _background.portal().start_task_soon(work)


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Do the work on the loop, and wait for it; an interruption, such as Ctrl-C, cancels it."""
    future = start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
