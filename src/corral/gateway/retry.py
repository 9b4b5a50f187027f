"""Trying a model call again, where that is safe: nothing was sent, or the service did no work.

The wait is random between zero and a bound that doubles ("full jitter": https://aws.amazon.com/builders-library/
timeouts-retries-and-backoff-with-jitter), so that many agents that failed together do not come back together.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from .call import CallError, Reply

LONGEST_WAIT = 60.0
"""Seconds. A service that asks for more is not waited for here: the caller parks its run instead."""

_FIRST_WAIT = 1.0
_LARGEST_SPREAD = 16.0


@dataclass(frozen=True)
class Attempt:
    """One attempt and how it ended."""

    number: int
    """1 is the first."""
    error: CallError | None
    """None: it brought the reply."""
    wait: float | None
    """Seconds until the next attempt; None when there will be none."""


async def attempt(
    call: Callable[[], Awaitable[Reply]],
    *,
    tries: int = 5,
    rng: random.Random | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    report: Callable[[Attempt], Awaitable[None]] | None = None,
) -> Reply:
    """The reply of the first attempt that brings one.

    Only NotSent and Overloaded are tried again, at most `tries` attempts in all. Nothing is sent before the service's
    Retry-After. `report` hears of each attempt before the wait. Raises the last CallError; its `retry_after` says when
    the service may be asked again if it said so.
    """
    rng = rng or random.Random()
    number = 0
    while True:
        number += 1
        failed = None
        try:
            reply = await call()
        except CallError as error:
            failed = error
        wait = pause(failed, number, rng) if failed is not None and number < tries else None
        if report:
            await report(Attempt(number, failed, wait))
        if failed is None:
            return reply
        if wait is None:
            raise failed
        await sleep(wait)


def pause(error: CallError, number: int, rng: random.Random) -> float | None:
    """Seconds to wait after this failure of attempt `number`; None when it must not be tried again."""
    if not error.retryable:
        return None
    asked = error.retry_after or 0.0
    if asked > LONGEST_WAIT:
        return None
    spread = min(_LARGEST_SPREAD, _FIRST_WAIT * 2.0 ** (number - 1), LONGEST_WAIT - asked)
    return asked + rng.uniform(0, spread)
