"""What can go wrong between a program and a server, one class for each reason that somebody catches.

    CorralError
      NotConfigured      no server is known
      UsageError         an argument is wrong; nothing was sent
      ServerError        a request brought no result
        Unreachable      no complete answer came back
        ApiError         the server answered, and refused or failed: a subclass by its reason, else by its HTTP status
      TimedOut           the time that the caller gave is over; the server goes on
      AgentRunFailed     a run ended without success

Reasons are open text, not an enumeration: a server may be newer than its client. `retryable` says whether the same
request can succeed later without anybody changing anything.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cause:
    """One field that is wrong, and in what way."""

    field: str
    message: str
    reason: str = ""


class CorralError(Exception):
    """The base of all: `message` says what happened and `fix`, when there is one, what to do."""

    retryable = False

    def __init__(self, message: str, fix: str = "", *, reason: str = "", request_id: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix
        self.reason, self.request_id = reason or type(self).__name__, request_id
        self.causes: list[Cause] = []

    def __str__(self) -> str:
        return f"{self.message}\nfix: {self.fix}" if self.fix else self.message


class NotConfigured(CorralError):
    """No server is configured, and none runs on this machine."""


class UsageError(CorralError, ValueError):
    """An argument is wrong. Nothing was sent."""


class TimedOut(CorralError, TimeoutError):
    """The time that the caller gave is over. What was asked for goes on at the server."""


class AgentRunFailed(CorralError):
    """A run ended without success: `run` is its name, `reason` the run's, `status` its last status."""

    def __init__(self, run: str, status: Mapping[str, Any]) -> None:
        self.run, self.status = run, status
        phase = str(status.get("phase") or "Failed")
        reason = str(status.get("reason") or phase)
        detail = f": {status['message']}" if status.get("message") else ""
        super().__init__(f"the run {run!r} is {phase} ({reason}){detail}", reason=reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run, dict(self.status))


class ServerError(CorralError):
    """A request brought no result."""

    after_break = False
    """Whether an earlier try of the request got no answer, so that it may have done its work."""


class Unreachable(ServerError):
    """The server could not be reached, or the connection broke before the answer was complete."""

    retryable = True


class ApiError(ServerError):
    """The server's Status: the reason, the HTTP code, the message, the fix and a cause for each wrong field.

    `retry_after` is how many seconds the server asks to wait before the request is repeated, None when it does not say.
    """

    def __init__(self, status: Mapping[str, Any], *, code: int = 0, retry_after: float | None = None) -> None:
        super().__init__(
            str(status.get("message") or f"the server answered {code}"),
            str(status.get("fix") or ""),
            reason=str(status.get("reason") or "Unknown"),
            request_id=str(status.get("requestId") or ""),
        )
        self.retry_after = retry_after
        self.code = int(status.get("code") or code)
        details = status.get("details")
        self.details: dict[str, Any] = details if isinstance(details, dict) else {}
        found = self.details.get("causes")
        self.causes = [
            Cause(str(c.get("field", "")), str(c.get("message", "")), str(c.get("reason", "")))
            for c in (found if isinstance(found, list) else [])
            if isinstance(c, dict)
        ]
        self._status = dict(status)

    def __str__(self) -> str:
        lines = [self.message, *(f"  {c.field}: {c.message}" for c in self.causes if c.field not in self.message)]
        return "\n".join([*lines, f"fix: {self.fix}"] if self.fix else lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self._status, self.code, self.retry_after)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code

    @classmethod
    def of(cls, code: int, body: bytes, request_id: str = "", retry_after: float | None = None) -> "ApiError":
        """The error that an answer with this code and body describes; a body that is no Status is quoted in part."""
        try:
            status = json.loads(body)
        except ValueError:
            status = None
        if not isinstance(status, dict) or "message" not in status:
            text = body[:200].decode("utf-8", "replace").strip()
            status = {"message": f"the server answered {code}" + (f": {text}" if text else ""), "reason": f"HTTP{code}"}
        return cls.told({"requestId": request_id, **status}, code=code, retry_after=retry_after)

    @staticmethod
    def told(status: Mapping[str, Any], *, code: int = 0, retry_after: float | None = None) -> "ApiError":
        """The error that a Status describes: of the class that its reason names, else of the class for its code."""
        code = int(status.get("code") or code)
        found = _REASONS.get(str(status.get("reason"))) or _CODES.get(code) or ApiError
        return found(status, code=code, retry_after=retry_after)


class BadRequest(ApiError):
    """400: the request cannot be read."""


class Unauthorized(ApiError):
    """401: there is no valid key."""


class BudgetExceeded(ApiError):
    """402: a Budget does not leave enough."""


class Forbidden(ApiError):
    """403: the key may not do this."""

    @property
    def missing_scope(self) -> str:
        """What the key would need, such as `agents:write`; empty when the server does not say."""
        return str(self.details.get("missingScope") or "")


class NotFound(ApiError):
    """404: there is no such object."""


class MethodNotAllowed(ApiError):
    """405: the kind does not know this verb."""


class AlreadyExists(ApiError):
    """409: the name is taken by an object with another spec."""

    @property
    def diff(self) -> dict[str, Any]:
        """Each field that differs, with what is there (`have`) and what was asked for (`want`)."""
        found = self.details.get("diff")
        return found if isinstance(found, dict) else {}


class Conflict(ApiError):
    """409: somebody else changed the object first."""


class FieldImmutable(ApiError):
    """409: the field cannot change after creation."""


class AgentRunFinished(ApiError):
    """409: the run has ended and takes no more messages."""


class AgentStopped(ApiError):
    """409: the agent is stopped and takes no new runs."""


class IdempotencyKeyReused(ApiError):
    """409: the idempotency key was used for another request."""


class RequestInProgress(ApiError):
    """409: the same request is still being worked on."""

    retryable = True


class Expired(ApiError):
    """410: the server no longer has the changes since that version."""


class PreconditionFailed(ApiError):
    """412: If-Match does not match."""


class RequestEntityTooLarge(ApiError):
    """413: the body is too large."""


class UnsupportedMediaType(ApiError):
    """415: the body's type is not known."""


class Invalid(ApiError):
    """422: fields are wrong; `causes` has one entry for each."""


class Unsupported(ApiError):
    """422: this server does not know, or does not do, what was asked for."""


class TooManyRequests(ApiError):
    """429: too many requests at a time."""

    retryable = True


class QuotaExceeded(ApiError):
    """429: a quota is used up."""


class InternalError(ApiError):
    """500: the server failed."""

    retryable = True


class Unavailable(ApiError):
    """503: the server, or what was asked for, is not ready."""

    retryable = True


NodusError = CorralError
APIConnectionError = Unreachable
APITimeoutError = TimedOut
"""These three are the names of other clients of the API for the same errors."""

_REASONS = {cls.__name__: cls for cls in ApiError.__subclasses__()}
_CODES: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    402: BudgetExceeded,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Expired,
    412: PreconditionFailed,
    413: RequestEntityTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def _again(cls: type[ApiError], status: dict[str, Any], code: int, retry_after: float | None) -> ApiError:
    return cls(status, code=code, retry_after=retry_after)
