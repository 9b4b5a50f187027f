"""When a request is sent once more, and how long after the one before.

Only what is safe is repeated: what reads, what replaces, and what creates with an Idempotency-Key, which every POST of
this client carries. What differs is patience: somebody at a terminal wants to know soon that the server is away; a
program that has worked for an hour wants to outlast its restart.
"""

import random
from dataclasses import dataclass

from .errors import ApiError, ServerError

LONGEST_WAIT = 30.0
"""Seconds between two tries of one request, at most."""
_FIRST_TRIES = 3
"""How often a server is tried from which no answer has ever come: more likely the address is wrong."""


@dataclass(frozen=True)
class Retries:
    """A policy. All times are in seconds."""

    seconds: float
    """A request is not begun again when this has passed since its first try."""
    stream_seconds: float
    """How long a stream may find no server before it gives up."""
    tries: int
    """How often a request is sent, at most."""
    writes: bool
    """Whether a broken connection is a reason to repeat what writes, too."""
    unasked: bool
    """Whether a failure that may pass is a reason although the server does not say Retry-After."""

    def pause(self, error: ServerError, method: str, attempt: int, spent: float, reached: bool) -> float | None:
        """How long to wait before the next try, or None when the error is final.

        `attempt` counts from 1, `spent` is the time since the first; `reached`: the server has answered before.
        """
        if isinstance(error, ApiError):
            wait = self._refused(error, attempt)
        else:
            wait = self._cut_off(method, attempt, reached) if error.retryable else None
        if wait is None or attempt >= self.tries or spent + wait > self.seconds:
            return None
        return wait

    def _refused(self, error: ApiError, attempt: int) -> float | None:
        if error.retry_after is not None:
            return error.retry_after
        return _backoff(attempt) if self.unasked and error.retryable else None

    def _cut_off(self, method: str, attempt: int, reached: bool) -> float | None:
        if method != "GET" and not self.writes:
            return None
        patient = self.writes and reached
        return _backoff(attempt) if patient or attempt < _FIRST_TRIES else None


def _backoff(attempt: int) -> float:
    # Half of it is random, so that clients that were cut off together do not come back together.
    return min(0.25 * 2.0 ** min(attempt, 10), LONGEST_WAIT) * random.uniform(0.5, 1.0)


QUICK = Retries(seconds=300, stream_seconds=60, tries=10, writes=False, unasked=False)
PATIENT = Retries(seconds=300, stream_seconds=300, tries=100, writes=True, unasked=True)
