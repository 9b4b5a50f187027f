"""HTTP to one server: requests with their repetitions, and answers that go on line by line."""

import ipaddress
import itertools
import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2

from ._retries import LONGEST_WAIT, Retries
from ._streams import documents
from .errors import ApiError, Unreachable, UsageError

_SILENT_SECONDS = 120.0
"""A stream that is silent for so long is opened again, as its other end may be gone without a word."""


class Link:
    """The connections to the server at `url`, with one key."""

    def __init__(self, url: str, key: str, retries: Retries, transport: httpx2.AsyncBaseTransport | None) -> None:
        self.url, self._retries = url, retries
        self._reached = False
        self.http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(60.0, connect=5.0),
            # Each watch holds a connection, and there may be many.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            # A proxy of the environment has no business between this machine and itself.
            trust_env=not _loopback(url),
            transport=transport,
        )

    async def request(
        self, method: str, path: str, params: Mapping[str, str] | None, body: Any, headers: Mapping[str, str] | None
    ) -> httpx2.Response:
        """One request, repeated where that is safe; the answer when its status is below 400."""
        headers, content = dict(headers or {}), None if body is None else _json(body)
        if content is not None:
            headers.setdefault("Content-Type", "application/json")
        if method == "POST":
            headers.setdefault("Idempotency-Key", f"corral-{uuid.uuid4()}")
        begun, broken = anyio.current_time(), False
        for attempt in itertools.count(1):
            try:
                return await self._once(method, path, params, content, headers)
            except (ApiError, Unreachable) as error:
                error.after_break = broken
                broken = broken or isinstance(error, Unreachable)
                spent = anyio.current_time() - begun
                wait = self._retries.pause(error, method, attempt, spent, self._reached)
                if wait is None:
                    raise
            await anyio.sleep(wait)
        raise AssertionError("unreachable: the last try returns or raises")

    async def lines(
        self, path: str, params: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[dict[str, Any]]:
        """The documents of one streamed answer, until it ends or breaks; waits for a server that is away a while."""
        timeout = httpx2.Timeout(_SILENT_SECONDS, connect=5.0)
        give_up = anyio.current_time() + self._retries.stream_seconds
        answered = False
        while True:
            try:
                async with self.http.stream(
                    "GET", self.url + path, params=params, headers=headers, timeout=timeout
                ) as response:
                    self._reached = answered = True
                    if response.status_code < 400:
                        async for document in documents(response.aiter_bytes()):
                            yield document
                        return
                    await response.aread()
                    wait = retry_after(response)
                    if wait is None or anyio.current_time() > give_up:
                        raise refusal(response)
            except httpx2.TransportError as error:
                if answered:
                    return
                if anyio.current_time() > give_up:
                    raise self.unreachable(error) from error
                wait = 0.5
            except (httpx2.HTTPError, ValueError) as error:
                raise self.unreachable(error) from error
            await anyio.sleep(wait)

    async def _once(
        self, method: str, path: str, params: Mapping[str, str] | None, content: bytes | None, headers: dict[str, str]
    ) -> httpx2.Response:
        try:
            response = await self.http.request(method, self.url + path, params=params, content=content, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            unreachable = self.unreachable(error)
            unreachable.retryable = isinstance(error, httpx2.TransportError)
            raise unreachable from error
        self._reached = True
        if response.status_code >= 400:
            raise refusal(response)
        return response

    def unreachable(self, error: Exception) -> Unreachable:
        """The error for a request that found no server, or no whole answer."""
        what = "cannot be reached" if isinstance(error, httpx2.ConnectError) else "did not answer"
        return Unreachable(
            f"the server at {self.url} {what}: {str(error) or type(error).__name__}",
            "Check that `corral up` runs there, and the address in CORRAL_URL.",
        )


def refusal(response: httpx2.Response) -> ApiError:
    """The error that an answer of 400 or more tells."""
    request_id = response.headers.get("X-Request-Id", "")
    return ApiError.of(response.status_code, response.content, request_id, retry_after(response))


def retry_after(response: httpx2.Response) -> float | None:
    """How long the server asks to wait, in seconds, or None when it does not ask for a repetition."""
    if response.status_code != 429 and response.status_code < 500:
        return None
    try:
        return min(max(float(response.headers["Retry-After"]), 0.0), LONGEST_WAIT)
    except (KeyError, ValueError):
        return None


def read(response: httpx2.Response) -> dict[str, Any]:
    """The JSON object of an answer. Raises Unreachable when it is none: then something else has answered."""
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unreachable(
            f"{response.request.url} answered something that is not a JSON object",
            "Check that CORRAL_URL is the address of a Corral server.",
        )
    return found


def _json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"this cannot be sent as JSON: {error}", "Give text, numbers, lists and dictionaries."
        ) from None


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
