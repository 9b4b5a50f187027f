"""How a person gets a key from a server: through a browser on this machine, or with a code on another device.

Browser: OAuth's authorization code with PKCE (RFC 7636) to a loopback address (RFC 8252). Device: RFC 8628. Both end
with a list of keys, one for each organisation.
"""

import base64
import hashlib
import hmac
import secrets
import socket
import webbrowser
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import anyio.to_thread
import httpx2
from anyio.abc import SocketStream

from corral.cli import printing
from corral.cli.failures import TIMED_OUT, Failure
from corral.sdk import ApiError

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_REQUEST_LIMIT = 16 * 1024
_PAGE = "<!doctype html><meta charset=utf-8><title>Corral</title><p>{}"


class Granted(NamedTuple):
    """A key that the server has made for us."""

    key: str
    name: str
    """The APIKey on the server."""
    org: str
    project: str


def client(url: str) -> httpx2.AsyncClient:
    """Requests without a key."""
    return httpx2.AsyncClient(base_url=url, timeout=30, headers={"User-Agent": "corral"})


async def by_browser(http: httpx2.AsyncClient, *, opening: bool, seconds: float) -> list[Granted]:
    """The keys that a person grants in a browser; `opening`: open it, else only print the address.

    Raises Failure when it is refused or takes longer than `seconds`.
    """
    console = (await _json(await http.get("/.well-known/nodus-configuration"))).get("consoleURL")
    if not isinstance(console, str):
        raise Failure("the server has no page to log in", fix="Use `corral login --device` or --with-token.")
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        query = {"code_challenge": challenge, "host": socket.gethostname(), "port": port, "state": state}
        address = f"{console.rstrip('/')}/cli-auth?{urlencode(query)}"
        printing.err(f"Log in at {address}")
        if opening:
            await anyio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)
        code = await _code(listener, state, seconds)
    answer = await http.post("/auth/cli-keys/redeem", json={"code": code, "codeVerifier": verifier})
    return _granted(await _json(answer))


async def by_device(http: httpx2.AsyncClient) -> list[Granted]:
    """The keys that a person grants on another device. Raises Failure when it is refused or the code expires."""
    begun = await _json(await http.post("/auth/device/code", json={"client_id": "corral"}))
    shown = begun.get("verification_uri_complete") or begun["verification_uri"]
    printing.err(f"Log in at {shown}")
    printing.err(f"The code is {begun['user_code']}; compare it with the one on the page.")
    pause = float(begun.get("interval") or 5)
    with anyio.move_on_after(float(begun.get("expires_in") or 600)):
        while True:
            await anyio.sleep(pause)
            body = {"grant_type": _GRANT, "device_code": begun["device_code"], "client_id": "corral"}
            answer = await http.post("/auth/device/token", json=body)
            if answer.status_code < 400:
                return _granted(await _json(answer))
            problem = _oauth_error(answer)
            if problem == "slow_down":
                pause += 5
            elif problem == "access_denied":
                raise _denied()
            elif problem == "expired_token":
                break
            elif problem != "authorization_pending":
                await _json(answer)
    raise _too_late()


async def _code(listener: Any, state: str, seconds: float) -> str:
    """The code that the browser brings back to us."""
    sender, receiver = anyio.create_memory_object_stream[str | None](1)

    async def answer(stream: SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(10):
                status, text, found = _callback(await _target(stream), state)
                page = _PAGE.format(text).encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
                await stream.send(f"{head}Connection: close\r\n\r\n".encode() + page)
                if status.startswith("200"):
                    await sender.send(found)

    code: str | None = ""
    async with sender, receiver, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        with anyio.move_on_after(seconds):
            code = await receiver.receive()
        group.cancel_scope.cancel()
    if code is None:
        raise _denied()
    if not code:
        raise _too_late()
    return code


async def _target(stream: SocketStream) -> str:
    """What the request asks for; empty for anything but a short GET."""
    head = b""
    try:
        while b"\r\n\r\n" not in head and len(head) < _REQUEST_LIMIT:
            head += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return ""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    return words[1] if len(words) == 3 and words[0] == "GET" else ""


def _callback(target: str, state: str) -> tuple[str, str, str | None]:
    """How to answer the browser, with what text, and the code (None when the person has refused)."""
    parts = urlsplit(target)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    if parts.path != "/callback":
        return "404 Not Found", "There is nothing here.", None
    if not hmac.compare_digest(query.get("state", "").encode(), state.encode()):
        return "400 Bad Request", "This is not the login that was asked for. Start again.", None
    if not query.get("code"):
        return "200 OK", "The login was refused. You can close this page.", None
    return "200 OK", "You are logged in. You can close this page.", query["code"]


async def _json(response: httpx2.Response) -> dict[str, Any]:
    """The document of an answer. Raises ApiError for a refusal."""
    if response.status_code >= 400:
        raise ApiError.of(response.status_code, response.content, response.headers.get("X-Request-Id", ""))
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Failure(f"{response.request.url} answered something else than JSON", fix="Check the server's address.")
    return document


def _oauth_error(response: httpx2.Response) -> str:
    try:
        document = response.json()
    except ValueError:
        return ""
    return str(document.get("error", "")) if isinstance(document, dict) else ""


def _granted(document: Mapping[str, Any]) -> list[Granted]:
    keys = document.get("keys") or []
    found = [
        Granted(
            str(k["key"]), str(k.get("name") or ""), str(k.get("orgName") or ""), str(k.get("project") or "default")
        )
        for k in keys
    ]
    if not found:
        raise Failure("the server granted no key", fix="Log in again, and approve at least one organisation.")
    return found


def _denied() -> Failure:
    return Failure("the login was refused", reason="AccessDenied", fix="Log in again, and approve it.")


def _too_late() -> Failure:
    fix = "Log in again, and approve it in time."
    return Failure("nobody approved the login in time", reason="TimedOut", fix=fix, code=TIMED_OUT)
