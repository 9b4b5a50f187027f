"""What a wire format is to the double: how a request is read and how a reply is written."""

from dataclasses import dataclass
from typing import Any, Protocol

from corral.gateway.call import Usage
from corral.gateway.script import Planned, Scene

BAD_ARGUMENTS = '{"command": "ls'
"""Tool arguments that are no JSON."""

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Answer:
    """A reply with what goes around it."""

    model: str
    id: str
    planned: Planned
    usage: Usage | None
    """None: reported to nobody."""
    bad_arguments: bool = False
    """The first tool call's arguments are malformed."""


class Wire(Protocol):
    """One wire format; a module is one."""

    def scene(self, body: dict[str, Any]) -> Scene:
        """What the request says."""
        ...

    def blocks(self, body: dict[str, Any]) -> list[Any]:
        """The request in the pieces that a prompt cache counts, in order."""
        ...

    def cached_blocks(self, body: dict[str, Any]) -> int:
        """How many of the blocks, from the first, the service would keep in its prompt cache."""
        ...

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The body of a response that is not streamed."""
        ...

    def events(self, answer: Answer, body: dict[str, Any]) -> list[str]:
        """The server-sent events of a streamed response."""
        ...

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error response, and of an error event."""
        ...
