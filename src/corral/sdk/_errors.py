"""What can go wrong between a client and a server.

    ServerError
      ApiError      the server answered, and refused or failed
      Unreachable   no complete answer came back

The reasons are open text, not an enumeration: a server may be newer than its client.
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


class ServerError(Exception):
    """A request brought no result. `message` says why and `fix`, when there is one, what to do."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


class Unreachable(ServerError):
    """The server could not be reached, or the connection broke before the answer was complete."""


class ApiError(ServerError):
    """The server's Status: the reason, the HTTP code, the message, the fix and a cause for each wrong field.

    `retry_after` is how many seconds the server asks to wait before the request is repeated, None when it must not be.
    """

    def __init__(self, status: Mapping[str, Any], *, code: int = 0, retry_after: float | None = None) -> None:
        super().__init__(str(status.get("message") or f"the server answered {code}"), str(status.get("fix") or ""))
        self.retry_after = retry_after
        self.code = int(status.get("code") or code)
        self.reason = str(status.get("reason") or "Unknown")
        self.request_id = str(status.get("requestId") or "")
        details = status.get("details")
        found = details.get("causes") if isinstance(details, dict) else None
        self.causes = [
            Cause(str(c.get("field", "")), str(c.get("message", "")), str(c.get("reason", "")))
            for c in (found if isinstance(found, list) else [])
            if isinstance(c, dict)
        ]

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
        return cls({"requestId": request_id, **status}, code=code, retry_after=retry_after)
