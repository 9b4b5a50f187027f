"""How an activation leaves a program: by its end, by waiting, or by an exception that says why."""

from dataclasses import dataclass, field
from typing import Any, Literal

Interrupted = Literal["again", "charge", "park"]
"""What a new activation does with a step that was begun and has no result.

again: the act is safe to repeat, because it is idempotent or asks first what became of it. charge: count the attempt
at its reservation and make another. park: ask a person.
"""

Effect = Literal["pure", "idempotent", "external"]


@dataclass(frozen=True)
class Result:
    """What an act brought: a JSON value, its cost in nano-USD, and what people are shown of it."""

    value: Any
    cost: int = 0
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ending:
    """How a program ended."""

    state: Literal["succeeded", "failed"]
    reason: str = ""
    message: str = ""


class Park(Exception):
    """Let the execution wait, as a row and nothing else, for the reason."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason, self.message = reason, message


class LostClaim(Exception):
    """Another claim, a cancel or a deadline owns the execution now: stop, and write nothing."""


class ReplayMismatch(Exception):
    """The program asked for another step than the one recorded at this place: its code has changed."""


class StepFailed(Exception):
    """An act failed with a known outcome; recorded, and raised again at each replay."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class OutcomeUnknown(Exception):
    """Raised by an act that may have had its effect and cannot say."""


MAX_COST_REACHED = "MaxCostReached"
NEEDS_RESOLUTION = "NeedsResolution"
