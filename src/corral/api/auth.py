"""Who the key speaks for, and how programs get a key: the requests of `login`, without its pages."""

from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from corral.kinds import Problem, Reason, parse
from corral.verbs import access, logins

from .objects import caller, services

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_CLIENT_LENGTH = 100


async def whoami(request: Request) -> Response:
    """Who the key speaks for, and what it allows."""
    return JSONResponse(await access.whoami(services(request), caller(request)))


async def configuration(request: Request) -> Response:
    """Where the pages for people are."""
    return JSONResponse({"consoleURL": base(request)})


async def redeem(request: Request) -> Response:
    """The key, for a code that the browser brought."""
    fields = await _fields(request)
    keys = await logins.redeem(services(request), fields.get("code", ""), fields.get("codeVerifier", ""))
    return _secret({"keys": keys})


async def device_code(request: Request) -> Response:
    """Begin a device login (RFC 8628, section 3.1)."""
    fields = await _fields(request)
    device = await logins.begin_device(services(request), fields.get("client_id", "")[:_CLIENT_LENGTH] or "a program")
    page = f"{base(request)}/device"
    return _secret(
        {
            "device_code": device.device_code,
            "user_code": device.user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?{urlencode({'user_code': device.user_code})}",
            "expires_in": logins.DEVICE_SECONDS,
            "interval": logins.INTERVAL_SECONDS,
        }
    )


async def device_token(request: Request) -> Response:
    """The key, or the word for why not (yet), in the form of OAuth (RFC 8628, section 3.5)."""
    fields = await _fields(request)
    if fields.get("grant_type") != DEVICE_GRANT:
        return JSONResponse({"error": "unsupported_grant_type"}, 400)
    try:
        return _secret({"keys": await logins.poll_device(services(request), fields.get("device_code", ""))})
    except logins.Pending as pending:
        return JSONResponse({"error": pending.error}, 400)


def base(request: Request) -> str:
    """The server's address as the client wrote it."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a JSON object or of a form (OAuth clients send forms). Raises Problem BadRequest."""
    body = await request.body()
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return dict(form(body))
    document = parse(body)
    if not isinstance(document, dict) or not all(isinstance(v, str) and "\0" not in v for v in document.values()):
        raise Problem(
            Reason.BadRequest, "the body is not a JSON object of strings", fix='Send such as {"code": "..."}.'
        )
    return document


def form(body: bytes) -> list[tuple[str, str]]:
    """The fields of a form. Raises Problem BadRequest."""
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=20)
        if any("\0" in value for _, value in fields):
            raise ValueError("a value holds a NUL")
        return fields
    except ValueError as error:
        raise Problem(Reason.BadRequest, f"the body is not a form: {error}") from None


def _secret(body: dict[str, Any]) -> Response:
    return JSONResponse(body, headers={"Cache-Control": "no-store"})


OPEN = (
    Route("/.well-known/nodus-configuration", configuration),
    Route("/auth/cli-keys/redeem", redeem, methods=["POST"]),
    Route("/auth/device/code", device_code, methods=["POST"]),
    Route("/auth/device/token", device_token, methods=["POST"]),
)
"""What needs no key."""
routes = [Route("/auth/whoami", whoami), *OPEN]
