"""The one error of the wire: a Kubernetes Status with a reason and, for bad fields, a cause for each."""

from enum import Enum
from typing import Any

from pydantic import BaseModel


class Reason(Enum):
    """Why a request was refused: the reason on the wire and its HTTP status."""

    BadRequest = 400
    Unauthorized = 401
    Forbidden = 403
    NotFound = 404
    MethodNotAllowed = 405
    AlreadyExists = (409, "AlreadyExists")
    Conflict = (409, "Conflict")
    FieldImmutable = (409, "FieldImmutable")
    AgentRunFinished = (409, "AgentRunFinished")
    AgentStopped = (409, "AgentStopped")
    IdempotencyKeyReused = (409, "IdempotencyKeyReused")
    RequestInProgress = (409, "RequestInProgress")
    Expired = 410
    PreconditionFailed = 412
    RequestEntityTooLarge = 413
    UnsupportedMediaType = 415
    Invalid = 422
    Unsupported = (422, "Unsupported")
    TooManyRequests = 429
    InternalError = 500
    Unavailable = 503

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.value if isinstance(self.value, int) else int(self.value[0])


class Cause(BaseModel):
    """One field that is wrong, and in what way."""

    field: str
    reason: str
    message: str


class Problem(Exception):
    """Raised by anything that refuses a request; the doors turn it into a Status, an exit code or a page.

    `fix` says what the caller can do; `details` goes into the Status as it is.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        fix: str = "",
        causes: list[Cause] | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason, self.message, self.fix = reason, message, fix
        self.causes, self.details = causes or [], details or {}

    def status(self, request_id: str = "") -> dict[str, Any]:
        """The body of the answer."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [cause.model_dump() for cause in self.causes]
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "code": self.reason.code,
            "reason": self.reason.name,
            "message": self.message,
            "details": details,
        }
        if self.fix:
            body["fix"] = self.fix
        if request_id:
            body["requestId"] = request_id
        return body
