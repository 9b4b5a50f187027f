"""One POST to a model service, and what its failure means.

Only this module knows whether bytes were sent. It sends a request once: no retries, no redirects, no proxies taken from
the environment. Whatever leaves it, no error text contains the API key.
"""

import base64
import ipaddress
import json
import math
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import httpx2

from corral.base.text import printable

from . import frames, sse
from .call import CallError, NotSent, OnDelta, Overloaded, Rejected, Reply, Uncertain

Decode = Callable[[AsyncIterable[str], OnDelta | None], Awaitable[Reply]]

CONTEXT_TOO_LONG = "context_too_long"
"""The `type` of a Rejected call whose conversation does not fit the model: shorten it and call again."""

_TOO_LONG = re.compile(
    r"prompt is too long|maximum context length|context_length_exceeded|exceeds? the (available )?context"
)
_KEY_LIKE = re.compile(r"\b(sk|rk|pk|key)-[A-Za-z0-9_\-*]{8,}")
_ERROR_BODY = 64 << 10
_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.5


def base_address(base_url: str, default: str) -> str:
    """The base URL up to and including `/v1`.

    `base_url` may end in `/v1` or not; empty means `default`. Plain http is for servers of one's own: the service
    itself and any public IP address need https. Raises ValueError with the rule.
    """
    url = urlsplit((base_url or default).rstrip("/"))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"the base URL {_shown(base_url)!r} must be an http or https address, such as {default}")
    if "@" in url.netloc or url.query or url.fragment:
        raise ValueError("the base URL must have no user name, query or fragment; give the key as the API key")
    if url.scheme == "http" and (url.hostname == urlsplit(default).hostname or _is_public(url.hostname)):
        raise ValueError(f"the base URL {_shown(base_url)!r} would send the API key unencrypted; write https")
    address = f"{url.scheme}://{url.netloc}{url.path}"
    return address if address.endswith("/v1") else f"{address}/v1"


def checked_key(api_key: str, what: str) -> str:
    """The key itself. Raises ValueError, without showing it, when it cannot be sent in a header."""
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise ValueError(f"{what} has characters that a key cannot have, such as a space or a line end; copy it again")
    return api_key


class Endpoint:
    """One address of one service, with a pool of connections and the key that goes with it."""

    def __init__(self, url: str, headers: Mapping[str, str], *, api_key: str, read_timeout: float) -> None:
        """`read_timeout`: seconds without a byte from the service before a call counts as Uncertain."""
        self._url, self._key = url, api_key
        # Identity encoding, because a compressed stream arrives in lumps.
        fixed = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
        self._client = httpx2.AsyncClient(
            headers={**fixed, **headers},
            timeout=httpx2.Timeout(read_timeout, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=5.0),
            trust_env=False,
            follow_redirects=False,
        )

    async def post(self, body: Mapping[str, Any], decode: Decode, on_delta: OnDelta | None = None) -> Reply:
        """Send the body once and decode the answer's events. Raises a CallError, whose text is short and has no key."""
        try:
            return await self._send(encoded(body), decode, on_delta)
        except CallError as error:
            raise _presentable(error, self._key) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send(self, body: bytes, decode: Decode, on_delta: OnDelta | None) -> Reply:
        try:
            async with self._client.stream("POST", self._url, content=body) as response:
                if response.status_code != 200:
                    raise classify(response.status_code, response.headers, await _start_of(response))
                async with aclosing(sse.read(response.aiter_bytes())) as events:
                    reply = await decode(events, on_delta)
                    await _drain(events)
                return replace(reply, request_id=request_id(response.headers))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol) as error:
            raise NotSent(f"cannot reach the model service: {_described(error)}") from None
        except httpx2.ReadTimeout:
            raise Uncertain("the model service was silent for longer than the read timeout") from None
        except (httpx2.HTTPError, httpx2.StreamError, sse.EventTooLarge, OSError) as error:
            raise Uncertain(f"the connection failed before the answer was complete: {_described(error)}") from None


def encoded(body: Mapping[str, Any]) -> bytes:
    """The body as UTF-8 JSON. Lone surrogates, which services refuse, become U+FFFD."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return frames.clean(text).encode()


def classify(status: int, headers: Mapping[str, str], body: bytes) -> CallError:
    """What a status other than 200 means.

    Overloaded is what the service itself says without having worked: 429, 529, and 500 or 503 with its own error body.
    Other 5xx, a 408 and a 2xx without an answer come from something between, or from the middle of the work: Uncertain.
    """
    error = _provider_error(body)
    message = str(error.get("message") or f"HTTP {status} without the service's own error message")
    kind = str(error.get("type") or error.get("code") or "")
    if status in (429, 529) or (status in (500, 503) and error):
        return Overloaded(message, status=status, type=kind, retry_after=retry_after(headers))
    if status >= 500 or status < 300 or status in (408, 499):
        return Uncertain(message, status=status, type=kind)
    if status < 400:
        return Rejected(f"HTTP {status}: the service redirects; set its base URL to where it is", status=status)
    if status == 413 or _TOO_LONG.search(f"{error.get('code')} {message}"):
        kind = CONTEXT_TOO_LONG
    return Rejected(message, status=status, type=kind)


def retry_after(headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds, or an HTTP date).

    None when both are absent or unreadable.
    """
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    for text, scale in ((milliseconds, 0.001), (value, 1.0)):
        with suppress(ValueError):
            if text is not None and math.isfinite(seconds := float(text)):
                return max(0.0, seconds * scale)
    if value is None:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now()).total_seconds())


def request_id(headers: Mapping[str, str]) -> str:
    """The service's name for the call, to quote when asking its support."""
    return printable(headers.get("request-id") or headers.get("x-request-id") or "")[:128]


def without_key(text: str, api_key: str) -> str:
    """Text in which the key, as it is, URL-quoted or in base64, and all that looks like a key is `***`."""
    if api_key:
        for form in (api_key, quote(api_key, safe=""), base64.b64encode(api_key.encode()).decode().rstrip("=")):
            text = text.replace(form, "***")
    return _KEY_LIKE.sub("***", text)


async def _start_of(response: httpx2.Response) -> bytes:
    """The first bytes of an error body; what arrived before the connection broke is enough."""
    body = b""
    with suppress(httpx2.HTTPError):
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= _ERROR_BODY:
                break
    return body[:_ERROR_BODY]


async def _drain(events: AsyncIterator[str]) -> None:
    """Read to the end of the response, so that its connection can be used again. The reply is complete already."""
    with suppress(httpx2.HTTPError, sse.EventTooLarge), anyio.move_on_after(_DRAIN_SECONDS):
        async for _ in events:
            pass


def _provider_error(body: bytes) -> dict[str, Any]:
    """The `error` object of a service's error body; empty when an intermediary wrote the body."""
    try:
        value = frames.parse(body.decode("utf-8", "replace"))
    except ValueError:
        return {}
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {}


def _presentable(error: CallError, api_key: str) -> CallError:
    """The same error with a short text, in one line, without the key."""
    message = printable(" ".join(frames.clean(without_key(str(error), api_key)).split()))
    error.args = (message if len(message) <= 500 else f"{message[:500]}...",)
    error.type = printable(without_key(error.type, api_key))[:80]
    return error


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False


def _shown(base_url: str) -> str:
    return printable(base_url)[:200]
