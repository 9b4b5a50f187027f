"""One gate for all calls of one account, so that a rate limit that one call meets is known to all.

Without it each of thirty agents finds the limit for itself, again and again. The gate stays shut until the moment the
service named, opens to each caller at a slightly different time, and lets fewer calls run at once after each refusal
and slowly more after each success (additive increase, multiplicative decrease, as in TCP: RFC 5681).
"""

import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from .call import Overloaded
from .retry import LONGEST_WAIT

CEILING = 64
"""Calls of one account at once when nothing was ever refused."""

FLOOR = 4
"""Calls at once after any number of refusals: a refusal costs nothing, and one call at a time would stall a fleet."""

_SPREAD = 1.0
"""Seconds over which the callers go that waited for the gate to open."""


class Gate:
    """How many calls may run now, and from when on."""

    def __init__(
        self,
        ceiling: int = CEILING,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = anyio.current_time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._ceiling = ceiling
        self._limit = float(ceiling)
        self._rng, self._clock, self._sleep = rng or random.Random(), clock, sleep
        self._active = 0
        self._waiting: deque[anyio.Event] = deque()
        self._opens = self._lowered = float("-inf")

    @property
    def limit(self) -> int:
        """Calls that may run at once now."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a turn and hold it for the block; first come, first served.

        A caller's time is set once, when it has its turn; a refusal that comes while it waits for that time is for
        those who come after. Raises Overloaded at once when the service asked for a longer pause than is waited for.
        """
        await self._acquire()
        try:
            pause = self._opens - self._clock()
            if pause > LONGEST_WAIT:
                raise Overloaded("the model service asked to wait before the next call", retry_after=pause)
            if pause > 0:
                await self._sleep(pause + self._rng.uniform(0, _SPREAD))
            yield
        finally:
            self._release()

    def succeeded(self) -> None:
        """A call brought its reply: about one more may run at once for each full round of them."""
        self._limit = min(float(self._ceiling), self._limit + 1 / self._limit)
        self._hand_over()

    def refused(self, started: float, retry_after: float | None) -> None:
        """A call that started at this moment of the clock was refused, and the service named this pause in seconds.

        Calls that had started before the limit was lowered tell nothing new, so a burst of refusals counts once.
        """
        now = self._clock()
        self._opens = max(self._opens, now + (retry_after or 0.0))
        if started >= self._lowered:
            self._limit = max(float(min(FLOOR, self._ceiling)), self._limit / 2)
            self._lowered = now

    async def _acquire(self) -> None:
        if self._active < self.limit and not self._waiting:
            self._active += 1
            return
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._release()
            else:
                self._waiting.remove(turn)
            raise

    def _release(self) -> None:
        self._active -= 1
        self._hand_over()

    def _hand_over(self) -> None:
        """Give free slots to who waits longest; the slot is taken before its new owner runs."""
        while self._waiting and self._active < self.limit:
            self._active += 1
            self._waiting.popleft().set()
