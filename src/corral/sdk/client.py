"""A client of one server and one project: objects by kind, their changes, and the work of runs.

It repeats a request only when that is safe: after a refusal with Retry-After (the server did nothing), and after a
broken connection when the request only reads. Everything that creates carries an Idempotency-Key, so that the server
tells a repetition from a second request.
"""

import ipaddress
import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import quote, urlsplit

import anyio
import httpx2

from corral.kinds import API_VERSION, Problem, scheme

from ._errors import ApiError, Unreachable
from ._merge import annotated, patch_for
from ._streams import Event, documents

TRIES = 10
LONGEST_WAIT = 30.0
"""Seconds between two tries of one request, at most."""
PATIENCE = 60.0
"""How many seconds a stream may find no server before it gives up."""
_REOPEN = 0.2
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
_FINISHED = ("Succeeded", "Failed", "Cancelled")


class Applied(NamedTuple):
    """What `apply` did, and the object after it."""

    action: Literal["created", "configured", "unchanged"]
    object: dict[str, Any]


class Client:
    """Speaks to the server at `url` with an API key, in one project. Use it as an async context manager.

    Objects are the JSON documents of the wire. Every method raises ApiError when the server refuses and Unreachable
    when no answer comes.
    """

    def __init__(
        self, url: str, key: str, project: str = "default", *, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self.url, self.project = url.rstrip("/"), project
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(60.0, connect=5.0),
            # A proxy of the environment has no business between this machine and itself.
            trust_env=not _loopback(url),
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    def path(self, plural: str, name: str = "", part: str = "", *, everywhere: bool = False) -> str:
        """The path of a collection, of an object in it, or of a part of that object. `everywhere`: of all projects."""
        inside = "" if everywhere or _org_wide(plural) else f"/namespaces/{quote(self.project, safe='')}"
        tail = "".join(f"/{quote(piece, safe='')}" for piece in (plural, name, part) if piece)
        return f"/apis/{API_VERSION}{inside}{tail}"

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        tries: int = TRIES,
    ) -> httpx2.Response:
        """One request, repeated up to `tries` times where that is safe; the answer when its status is below 400."""
        headers = dict(headers or {})
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers.setdefault("Content-Type", "application/json")
        if method == "POST":
            headers.setdefault("Idempotency-Key", f"corral-{uuid.uuid4()}")
        for attempt in range(1, tries + 1):
            try:
                response = await self._http.request(
                    method, self.url + path, params=params, content=content, headers=headers
                )
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                if method != "GET" or attempt >= min(tries, 3) or not isinstance(error, httpx2.TransportError):
                    raise self._unreachable(error) from error
                await anyio.sleep(0.2 * 2**attempt)
                continue
            if response.status_code < 400:
                return response
            wait = _retry_after(response)
            if wait is None or attempt == tries:
                raise _refusal(response)
            await anyio.sleep(wait)
        raise AssertionError("unreachable: the last try returns or raises")

    async def get(self, plural: str, name: str) -> dict[str, Any]:
        """The object of that name."""
        return _object(await self.request("GET", self.path(plural, name)))

    async def list(
        self, plural: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> dict[str, Any]:
        """The collection: `items`, and in `metadata.resourceVersion` where to watch from."""
        path, params = self.path(plural, everywhere=everywhere), _selection(labels, fields)
        return _object(await self.request("GET", path, params=params))

    async def table(
        self, plural: str, name: str = "", *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> dict[str, Any]:
        """The same as a Table with the kind's columns."""
        path, params = self.path(plural, name, everywhere=everywhere), _selection(labels, fields)
        return _object(await self.request("GET", path, params=params, headers={"Accept": _TABLE}))

    async def create(self, plural: str, document: Mapping[str, Any], *, key: str = "") -> dict[str, Any]:
        """Create the object; the same `key` again gives the same object again."""
        headers = {"Idempotency-Key": key} if key else None
        return _object(await self.request("POST", self.path(plural), body=document, headers=headers))

    async def apply(self, plural: str, manifest: Mapping[str, Any]) -> Applied:
        """Create the object, or change what the manifest says differently and remove what it no longer says."""
        name = str((manifest.get("metadata") or {}).get("name") or "")
        try:
            live = await self.get(plural, name)
        except ApiError as error:
            if error.code != 404:
                raise
            return Applied("created", await self.create(plural, annotated(manifest)))
        patch = patch_for(manifest, live)
        if not patch:
            return Applied("unchanged", live)
        after = await self.patch(plural, name, patch)
        same = after["metadata"].get("resourceVersion") == live["metadata"].get("resourceVersion")
        return Applied("unchanged" if same else "configured", after)

    async def patch(self, plural: str, name: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Change the object by a JSON merge patch (RFC 7396)."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return _object(await self.request("PATCH", self.path(plural, name), body=patch, headers=headers))

    async def delete(self, plural: str, name: str) -> None:
        """Ask for the object's deletion."""
        await self.request("DELETE", self.path(plural, name))

    async def watch(
        self,
        plural: str,
        *,
        since: str = "",
        name: str = "",
        labels: str = "",
        fields: str = "",
        everywhere: bool = False,
        table: bool = False,
    ) -> AsyncGenerator[Event]:
        """Changes after the version `since`, without end; it goes on where it was when a connection ends.

        Raises ApiError Expired when the server no longer has the changes since then: list again.
        """
        if name:
            fields = ",".join(filter(None, (f"metadata.name={name}", fields)))
        path, headers = self.path(plural, everywhere=everywhere), {"Accept": _TABLE} if table else None
        params = _selection(labels, fields) | {"watch": "true", "allowWatchBookmarks": "true"}
        version = since
        while True:
            async for item in self._lines(path, params | ({"resourceVersion": version} if version else {}), headers):
                event = Event(str(item.get("type", "")), item.get("object") or {})
                if event.type == "ERROR":
                    raise ApiError(event.object)
                version = event.version or version
                if event.type != "BOOKMARK":
                    yield event
            await anyio.sleep(_REOPEN)

    async def steps(self, name: str) -> dict[str, Any]:
        """What the run did so far, in order: `items`, and the `version` to follow it from."""
        return _object(await self.request("GET", self.path("agentruns", name, "steps")))

    async def follow(self, name: str, *, after: int | None = None) -> AsyncGenerator[dict[str, Any]]:
        """`{"type": "step", "step": ...}` whenever a step starts or changes and `{"type": "run", "object": ...}`
        whenever the run does, from the beginning or after a version; it ends with the finished run."""
        path = self.path("agentruns", name, "steps")
        while True:
            position = {} if after is None else {"after": str(after)}
            async for item in self._lines(path, {"follow": "true", **position}):
                after = max(after or 0, int(item.get("version") or 0))
                yield item
                if item.get("type") == "run" and item["object"].get("status", {}).get("phase") in _FINISHED:
                    return
            await anyio.sleep(_REOPEN)

    async def answer(self, name: str) -> str:
        """The run's latest answer; while a turn is pending, waits for it as long as it takes."""
        while True:
            try:
                return (await self.request("GET", self.path("agentruns", name, "answer"))).text
            except ApiError as error:
                if error.code != 503 or error.retry_after is None:
                    raise

    async def send(self, name: str, payload: Any, *, key: str = "") -> dict[str, Any]:
        """Give a run that is kept alive its next prompt; `{"seq", "messageKey"}`."""
        body = {"payload": payload} | ({"messageKey": key} if key else {})
        return _object(await self.request("POST", self.path("agentruns", name, "messages"), body=body))

    async def _lines(
        self, path: str, params: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[dict[str, Any]]:
        """The documents of one streamed answer, until it ends or breaks; waits for a server that is away a while."""
        # A stream that is silent for so long is opened again, as its other end may be gone without a word.
        timeout = httpx2.Timeout(120.0, connect=5.0)
        give_up = anyio.current_time() + PATIENCE
        while True:
            try:
                async with self._http.stream(
                    "GET", self.url + path, params=params, headers=headers, timeout=timeout
                ) as response:
                    if response.status_code < 400:
                        async for document in documents(response.aiter_bytes()):
                            yield document
                        return
                    await response.aread()
                    wait = _retry_after(response)
                    if wait is None or anyio.current_time() > give_up:
                        raise _refusal(response)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if anyio.current_time() > give_up:
                    raise self._unreachable(error) from error
                wait = 0.5
            except httpx2.TransportError:
                return
            except (httpx2.HTTPError, ValueError) as error:
                raise self._unreachable(error) from error
            await anyio.sleep(wait)

    def _unreachable(self, error: Exception) -> Unreachable:
        what = "cannot be reached" if isinstance(error, httpx2.ConnectError) else "did not answer"
        return Unreachable(
            f"the server at {self.url} {what}: {str(error) or type(error).__name__}",
            "Check that `corral up` runs there, and the address in CORRAL_URL.",
        )


def _refusal(response: httpx2.Response) -> ApiError:
    request_id = response.headers.get("X-Request-Id", "")
    return ApiError.of(response.status_code, response.content, request_id, _retry_after(response))


def _retry_after(response: httpx2.Response) -> float | None:
    """How long the server asks to wait, in seconds, or None when the request must not be repeated."""
    if response.status_code != 429 and response.status_code < 500:
        return None
    try:
        return min(max(float(response.headers["Retry-After"]), 0.0), LONGEST_WAIT)
    except (KeyError, ValueError):
        return None


def _object(response: httpx2.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Unreachable(
            f"{response.request.url} answered something that is not a JSON object",
            "Check that CORRAL_URL is the address of a Corral server.",
        )
    return document


def _selection(labels: str, fields: str) -> dict[str, str]:
    return {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def _org_wide(plural: str) -> bool:
    try:
        return scheme.find(plural).scope == "Org"
    except Problem:
        return False


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
