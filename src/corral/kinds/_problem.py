"""The one error of the wire: a Kubernetes Status with a reason and, for bad fields, a cause for each."""

from enum import Enum
from typing import Any

from pydantic import BaseModel


class Reason(Enum):
    """Why a request was refused: the reason on the wire, its HTTP status, and what it means."""

    BadRequest = 400, "The request cannot be read: its JSON, a selector or a parameter is malformed. Correct it."
    Unauthorized = 401, "The request has no valid key. Send `Authorization: Bearer KEY`; `corral env` shows the key."
    Forbidden = 403, "The key does not allow this (`details.missingScope` says what it lacks), or the page may not ask."
    NotFound = 404, "There is no such object, project or path, or the key does not reach it."
    MethodNotAllowed = 405, "This cannot be done with that object or path."
    AlreadyExists = 409, "Another object has the name. Choose another name, or change the one that exists."
    Conflict = 409, "Somebody else changed the object, or its state does not allow this. Read it again and repeat."
    FieldImmutable = 409, "The field is fixed when the object is created. Create a new object."
    AgentRunFinished = 409, "The run has ended and takes no messages and no cancel. Create a new run."
    AgentStopped = 409, "The agent's state is Stopped, so new runs are refused. Set its state to Running."
    IdempotencyKeyReused = (
        409,
        "The Idempotency-Key was sent before with another body. Use a new key for a new request.",
    )
    RequestInProgress = 409, "The same request is being worked on. Ask again in a moment."
    Expired = 410, "The position of a watch or of a list is not kept any more. List again from the beginning."
    PreconditionFailed = 412, "If-Match does not fit: the object, or what it would be, has changed. Look at it again."
    RequestEntityTooLarge = 413, "A body has at most 1 MiB. Send less in one request."
    UnsupportedMediaType = 415, "The Content-Type of a patch is not known. Send a merge patch or a JSON patch."
    Invalid = 422, "Fields are wrong: `details.causes` names each with its rule. Correct them all at once."
    Unsupported = 422, "The request is right, but this server cannot do it."
    TooManyRequests = 429, "Too much was asked for. Wait as long as Retry-After says."
    InternalError = 500, "The server failed. Its log has the cause under the request id."
    Unavailable = 503, "The server cannot answer now, or a run is still working. Ask again after Retry-After."

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """What it means and what to do, for people."""
        return self.value[1]


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

    def status(self, request_id: str = "", docs: str = "") -> dict[str, Any]:
        """The body of the answer. `docs` is where the reason is explained."""
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
        if docs:
            body["docs"] = docs
        if request_id:
            body["requestId"] = request_id
        return body
