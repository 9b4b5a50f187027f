"""The pages where a person approves a login: plain HTML without scripts.

A page asks for a key each time and keeps no session. A browser sends cookies of one port of a host to every port of it,
so on a shared machine a session cookie would reach the servers of other users. The one cookie there is proves that a
form came from the page: without it another site could log the visitor's program in with a key of its own.
"""

import base64
import hashlib
import hmac
import secrets
from html import escape
from importlib import resources
from string import Template
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from corral.base import ids
from corral.kinds import Problem, Reason
from corral.verbs import logins

from .auth import form
from .objects import services

COOKIE = "corral-form"
_FORM_SECONDS = 1800
_FIELD_LENGTH = 512

_files = resources.files(__package__) / "templates"
_style = (_files / "style.css").read_text("utf-8")
_layout, _loopback, _device = (
    Template((_files / f"{name}.html").read_text("utf-8")) for name in ("layout", "loopback", "device")
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_style.encode()).digest()).decode()
_HEADERS = {
    "Cache-Control": "no-store",
    # Not no-referrer: with it a browser sends `Origin: null` with the form, which the guard refuses.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'{{to}}; "
    "frame-ancestors 'none'; base-uri 'none'"
)


async def loopback(request: Request) -> Response:
    """`login` in a browser: GET asks, POST decides and sends the browser back to the program."""
    asks = request.method != "POST"
    fields = dict(request.query_params) if asks else dict(form(await request.body()))
    problem = _unfit(fields)
    if problem is not None:
        return _page("Log in", _refusal(problem), 400)
    if asks:
        return _ask_loopback(request, fields)
    if not _from_page(request, fields):
        return _ask_loopback(request, fields, _stale(), 403)
    back = f"http://127.0.0.1:{int(fields['port'])}/callback"
    if fields.get("decision") != "approve":
        return _redirect(back, error="access_denied", state=fields["state"])
    try:
        code = await logins.approve_loopback(services(request), _key(fields), fields["code_challenge"], _client(fields))
    except Problem as refused:
        return _ask_loopback(request, fields, refused, refused.reason.code)
    return _redirect(back, code=code, state=fields["state"])


async def device(request: Request) -> Response:
    """`login --device`: GET asks for the code, POST decides."""
    if request.method != "POST":
        return _ask_device(request, dict(request.query_params))
    fields = dict(form(await request.body()))
    if not _from_page(request, fields):
        return _ask_device(request, fields, _stale(), 403)
    approve = fields.get("decision") == "approve"
    try:
        client = await logins.decide_device(services(request), _key(fields), fields.get("user_code", ""), approve)
    except Problem as refused:
        return _ask_device(request, fields, refused, refused.reason.code)
    done = "has its key. You can close this page." if approve else "gets no key. You can close this page."
    return _page("Approved" if approve else "Denied", f"<p><strong>{escape(client)}</strong> {done}</p>")


def _unfit(fields: dict[str, str]) -> Problem | None:
    """Why the program's request cannot be taken. The browser only ever goes back to a port of 127.0.0.1."""
    port, state = fields.get("port", ""), fields.get("state", "")
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535):
        return Problem(Reason.BadRequest, "the port is not a number from 1 to 65535", fix="Begin the login again.")
    if not logins.is_challenge(fields.get("code_challenge", "")):
        text = "the code_challenge is not a SHA-256 in base64url"
        return Problem(Reason.BadRequest, text, fix="Begin the login again, with a client that uses PKCE (S256).")
    if not 1 <= len(state) <= _FIELD_LENGTH:
        return Problem(Reason.BadRequest, "the state is missing or too long", fix="Begin the login again.")
    return None


def _ask_loopback(
    request: Request, fields: dict[str, str], problem: Problem | None = None, status: int = 200
) -> Response:
    token = _token(request)
    body = _loopback.substitute(
        refusal=_refusal(problem),
        form=escape(token),
        challenge=escape(fields["code_challenge"]),
        client=escape(_client(fields)),
        port=int(fields["port"]),
        state=escape(fields["state"]),
    )
    return _with_token(request, _page("Log in", body, status, to=f" http://127.0.0.1:{int(fields['port'])}"), token)


def _ask_device(
    request: Request, fields: dict[str, str], problem: Problem | None = None, status: int = 200
) -> Response:
    token = _token(request)
    typed = escape(fields.get("user_code", "")[:32])
    body = _device.substitute(refusal=_refusal(problem), form=escape(token), user_code=typed)
    return _with_token(request, _page("Log in a device", body, status), token)


def _page(title: str, body: str, status: int = 200, *, to: str = "") -> Response:
    text = _layout.substitute(title=title, style=_style, body=body)
    return HTMLResponse(text, status, {**_HEADERS, "Content-Security-Policy": _POLICY.format(to=to)})


def _refusal(problem: Problem | None) -> str:
    if problem is None:
        return ""
    return f'<p class="refusal" role="alert">{escape(problem.message)}. {escape(problem.fix)}</p>'


def _redirect(back: str, **query: str) -> Response:
    return RedirectResponse(f"{back}?{urlencode(query)}", 303, _HEADERS)


def _client(fields: dict[str, str]) -> str:
    return fields.get("host", "")[:100] or "an unnamed machine"


def _key(fields: dict[str, str]) -> str:
    return ids.digest(fields.get("key", "").strip().encode("utf-8", "replace"))


def _token(request: Request) -> str:
    """Kept while the cookie lasts, so that two open pages both work."""
    known = request.cookies.get(COOKIE, "")
    return known if len(known) == 43 and known.isascii() else secrets.token_urlsafe(32)


def _with_token(request: Request, response: Response, token: str) -> Response:
    response.set_cookie(
        COOKIE,
        token,
        max_age=_FORM_SECONDS,
        path=request.url.path,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


def _from_page(request: Request, fields: dict[str, str]) -> bool:
    known = request.cookies.get(COOKIE, "").encode()
    return len(known) == 43 and hmac.compare_digest(known, fields.get("form", "").encode())


def _stale() -> Problem:
    return Problem(Reason.Forbidden, "the form is too old, or did not come from this page", fix="Try again.")


routes = [
    Route("/cli-auth", loopback, methods=["GET", "POST"]),
    Route("/device", device, methods=["GET", "POST"]),
]
"""Pages need no key: they ask for it."""
