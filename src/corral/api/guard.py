"""What every request passes: a request id, a size limit, the Host and Origin rules of loopback, and the key.

The key is asked for even on loopback: other users of the machine, and pages in a browser, reach loopback too.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from corral.base import ids
from corral.kinds import Problem, Reason
from corral.verbs import access
from corral.verbs.services import Caller, Services

from . import auth, pages
from .problems import answer

BODY_LIMIT = 1024 * 1024
OPEN_PATHS = frozenset({"/healthz", "/readyz", *(route.path for route in (*auth.OPEN, *pages.routes))})
NOBODY = Caller("")
"""Who asks for what needs no key: may do nothing else."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class Guard:
    """ASGI middleware. Whoever passes it is the `caller` in the request's state."""

    app: ASGIApp
    services: Services
    loopback: bool
    """Whether the server listens on loopback only: then only loopback names are taken as Host."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request_id = f"req_{ids.new_uid().replace('-', '')[:20]}"
        state = scope.setdefault("state", {})
        state.update(request_id=request_id, caller=NOBODY)
        headers = Headers(scope=scope)
        problem = self._refusal(headers) or _unreadable(scope)
        if problem is None and not _open(scope["path"]):
            caller = await self._caller(headers.get("authorization", ""))
            state["caller"] = caller or NOBODY
            problem = None if caller else _no_key()
        app = self.app if problem is None else answer(problem, scope)
        await app(scope, limited(receive), tagged(send, request_id))

    def _refusal(self, headers: Headers) -> Problem | None:
        host = (
            headers.get("host", "").rsplit(":", 1)[0] if not headers.get("host", "").endswith("]") else headers["host"]
        )
        if self.loopback and host not in _LOOPBACK:
            message = f"the Host {headers.get('host', '')!r} is not a name of this server"
            return Problem(Reason.Forbidden, message, fix="Reach it as 127.0.0.1 or localhost.")
        origin = headers.get("origin")
        if origin is not None and origin.split("://", 1)[-1] != headers.get("host", ""):
            return Problem(Reason.Forbidden, f"requests from pages of {origin!r} are not taken")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > BODY_LIMIT:
            return too_large()
        return None

    async def _caller(self, authorization: str) -> Caller | None:
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        return await access.authenticate(self.services, ids.digest(key.strip().encode("utf-8", "replace")))


def _unreadable(scope: Scope) -> Problem | None:
    # No name holds a NUL, and PostgreSQL takes none: it would end as a fault there.
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        return Problem(Reason.BadRequest, "the address holds a NUL", fix="Leave out %00.")
    return None


def _no_key() -> Problem:
    fix = 'Send "Authorization: Bearer KEY"; `eval "$(corral env)"` sets the key for the clients.'
    return Problem(Reason.Unauthorized, "the request has no valid key: it is unknown, expired or revoked", fix=fix)


def _open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith("/docs/")


def too_large() -> Problem:
    """The refusal of a body over the limit."""
    return Problem(Reason.RequestEntityTooLarge, "the body is larger than 1 MiB", fix="Send less in one request.")


def limited(receive: Receive) -> Receive:
    """A body without Content-Length is held to the limit as well."""
    size = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > BODY_LIMIT:
            raise too_large()
        return message

    return counted


def tagged(send: Send, request_id: str) -> Callable[[MutableMapping[str, Any]], Awaitable[None]]:
    """Every answer names its request."""

    async def tag(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
        await send(message)

    return tag
