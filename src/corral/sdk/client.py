"""A client of one server and one project: objects by kind, their changes, and the work of runs.

It repeats a request only when that is safe, as its `Retries` say. Everything that creates carries an Idempotency-Key,
so that the server tells a repetition from a second request.
"""

import copy
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import quote

import anyio
import httpx2

from corral.kinds import API_VERSION, Problem, scheme
from corral.kinds.agentrun import FINISHED

from ._link import Link, read
from ._merge import annotated, patch_for
from ._retries import QUICK, Retries
from ._streams import Event
from .errors import ApiError

_REOPEN = 0.2
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"


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
        self,
        url: str,
        key: str,
        project: str = "default",
        *,
        retries: Retries = QUICK,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url, self.project = url.rstrip("/"), project
        self._link = Link(self.url, key, retries, transport)

    async def __aenter__(self) -> Self:
        await self._link.http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._link.http.__aexit__(kind, error, trace)

    def within(self, project: str) -> Self:
        """The same connections, in another project; only the original is to be closed."""
        other = copy.copy(self)
        other.project = project
        return other

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
    ) -> httpx2.Response:
        """One request, repeated where that is safe; the answer when its status is below 400."""
        return await self._link.request(method, path, params, body, headers)

    async def get(self, plural: str, name: str) -> dict[str, Any]:
        """The object of that name."""
        return read(await self.request("GET", self.path(plural, name)))

    async def list(
        self, plural: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> dict[str, Any]:
        """The collection: `items`, and in `metadata.resourceVersion` where to watch from."""
        path, params = self.path(plural, everywhere=everywhere), _selection(labels, fields)
        return read(await self.request("GET", path, params=params))

    async def table(
        self, plural: str, name: str = "", *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> dict[str, Any]:
        """The same as a Table with the kind's columns."""
        path, params = self.path(plural, name, everywhere=everywhere), _selection(labels, fields)
        return read(await self.request("GET", path, params=params, headers={"Accept": _TABLE}))

    async def create(
        self, plural: str, document: Mapping[str, Any], *, key: str = "", dry_run: bool = False
    ) -> dict[str, Any]:
        """Create the object; the same `key` again gives the same object again. `dry_run`: the answer only."""
        headers, path = {"Idempotency-Key": key} if key else None, self.path(plural)
        return read(await self.request("POST", path, params=_dry(dry_run), body=document, headers=headers))

    async def apply(self, plural: str, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Applied:
        """Create the object, or change what the manifest says differently and remove what it no longer says.

        `dry_run`: the server checks and answers, and stores nothing.
        """
        name = str((manifest.get("metadata") or {}).get("name") or "")
        try:
            live = await self.get(plural, name)
        except ApiError as error:
            if error.code != 404:
                raise
            return Applied("created", await self.create(plural, annotated(manifest), dry_run=dry_run))
        patch = patch_for(manifest, live)
        if not patch:
            return Applied("unchanged", live)
        after = await self.patch(plural, name, patch, dry_run=dry_run)
        same = after["metadata"].get("resourceVersion") == live["metadata"].get("resourceVersion")
        return Applied("unchanged" if same and not dry_run else "configured", after)

    async def patch(
        self, plural: str, name: str, patch: Mapping[str, Any] | Sequence[Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Change the object by a JSON merge patch (RFC 7396), or by a JSON patch (RFC 6902) when it is a list."""
        form = "merge-patch" if isinstance(patch, Mapping) else "json-patch"
        headers, path = {"Content-Type": f"application/{form}+json"}, self.path(plural, name)
        return read(await self.request("PATCH", path, params=_dry(dry_run), body=patch, headers=headers))

    async def delete(self, plural: str, name: str) -> None:
        """Ask for the object's deletion."""
        try:
            await self.request("DELETE", self.path(plural, name))
        except ApiError as error:
            # What is not there any more was deleted by the try whose answer was lost.
            if error.code != 404 or not error.after_break:
                raise

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
            async for item in self._link.lines(
                path, params | ({"resourceVersion": version} if version else {}), headers
            ):
                event = Event(str(item.get("type", "")), item.get("object") or {})
                if event.type == "ERROR":
                    raise ApiError.told(event.object)
                version = event.version or version
                if event.type != "BOOKMARK":
                    yield event
            await anyio.sleep(_REOPEN)

    async def steps(self, name: str) -> dict[str, Any]:
        """What the run did so far, in order: `items`, and the `version` to follow it from."""
        return read(await self.request("GET", self.path("agentruns", name, "steps")))

    async def follow(self, name: str, *, after: int | None = None) -> AsyncGenerator[dict[str, Any]]:
        """`{"type": "step", "step": ...}` whenever a step starts or changes and `{"type": "run", "object": ...}`
        whenever the run does, from the beginning or after a version; it ends with the finished run."""
        path = self.path("agentruns", name, "steps")
        while True:
            position = {} if after is None else {"after": str(after)}
            async for item in self._link.lines(path, {"follow": "true", **position}):
                after = max(after or 0, int(item.get("version") or 0))
                yield item
                if item.get("type") == "run" and item["object"].get("status", {}).get("phase") in FINISHED:
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

    async def send(self, name: str, payload: Any, *, key: str = "", title: str = "") -> dict[str, Any]:
        """Give a run that is kept alive its next prompt; `{"seq", "messageKey"}`. `title` names the message."""
        body = {"payload": payload} | ({"messageKey": key} if key else {}) | ({"name": title} if title else {})
        return read(await self.request("POST", self.path("agentruns", name, "messages"), body=body))


def _dry(wanted: bool) -> dict[str, str]:
    return {"dryRun": "All"} if wanted else {}


def _selection(labels: str, fields: str) -> dict[str, str]:
    return {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def _org_wide(plural: str) -> bool:
    try:
        return scheme.find(plural).scope == "Org"
    except Problem:
        return False
