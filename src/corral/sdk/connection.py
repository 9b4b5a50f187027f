"""The connection of a program to its server: objects of every kind, in both forms."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import anyio

from corral.kinds import Problem, scheme

from . import _background, _find
from ._forms import both, stream
from ._retries import PATIENT
from .client import Client as AsyncClient
from .errors import Expired, UsageError
from .views import View, view

Views = list[View]


class Client:
    """A server and a project. Without arguments it is what the environment says, asked anew at each call.

    Kinds are given by any of their names: `Agent`, `agents`. Objects go in as dictionaries and come out as Views. Every
    method has a second form for asyncio code: `await client.get.aio("Agent", "helper")`. Connections are shared by all
    clients of the process and closed at its end; there is nothing to close here.
    """

    def __init__(self, url: str | None = None, key: str | None = None, project: str | None = None) -> None:
        if url or key:
            _find.server(url, key)
        self._url, self._key, self._project = url, key, project

    async def server(self) -> _find.Server:
        """Where it is, and our key for it. Raises NotConfigured."""
        return await anyio.to_thread.run_sync(_find.server, self._url, self._key)

    async def core(self, project: str | None = None) -> AsyncClient:
        """The client that does the work, for coroutines on the SDK's loop. Raises NotConfigured."""
        server = await self.server()
        shared = await _background.shared(server, lambda: AsyncClient(server.url, server.key, retries=PATIENT))
        return shared.within(project or _find.project(self._project))

    @both
    async def get(self, kind: str, name: str, *, project: str | None = None) -> View:
        """The object of that name. Raises NotFound."""
        return _read(await (await self.core(project)).get(_plural(kind), name))

    @both
    async def list(
        self, kind: str, *, labels: str = "", fields: str = "", project: str | None = None, everywhere: bool = False
    ) -> Views:
        """The objects that fit the selectors, such as `labels="team=search"`. `everywhere`: of all projects."""
        core = await self.core(project)
        found = await core.list(_plural(kind), labels=labels, fields=fields, everywhere=everywhere)
        return [_read(item) for item in found["items"]]

    @both
    async def create(
        self, document: Mapping[str, Any], *, project: str | None = None, idempotency_key: str = ""
    ) -> View:
        """Create the object. The same idempotency key again, within a day, gives the same object again.

        Raises AlreadyExists when the name is taken by one with another spec.
        """
        core = await self.core(_place(document, project))
        return _read(await core.create(_plural(document.get("kind")), document, key=idempotency_key))

    @both
    async def apply(self, document: Mapping[str, Any], *, project: str | None = None) -> View:
        """Create the object, or change what the document says differently and remove what it no longer says."""
        core = await self.core(_place(document, project))
        return _read((await core.apply(_plural(document.get("kind")), document)).object)

    @both
    async def patch(
        self, kind: str, name: str, patch: Mapping[str, Any] | Sequence[Any], *, project: str | None = None
    ) -> View:
        """Change the object: a dictionary is a JSON merge patch (RFC 7396), a list a JSON patch (RFC 6902)."""
        return _read(await (await self.core(project)).patch(_plural(kind), name, patch))

    @both
    async def delete(self, kind: str, name: str, *, project: str | None = None) -> None:
        """Delete the object. Raises NotFound."""
        await (await self.core(project)).delete(_plural(kind), name)

    @stream
    async def watch(
        self, kind: str, *, labels: str = "", fields: str = "", since: str = "", project: str | None = None
    ) -> AsyncGenerator[View]:
        """Each change as `{"type": "ADDED" | "MODIFIED" | "DELETED", "object": {...}}`, without end.

        It begins with what exists, or after the resourceVersion `since`, and goes on where it was when a connection
        breaks. When the server no longer has the changes since then, it begins again with what exists.
        """
        core, plural = await self.core(project), _plural(kind)
        while True:
            try:
                async with aclosing(core.watch(plural, since=since, labels=labels, fields=fields)) as events:
                    async for event in events:
                        since = event.version or since
                        yield View(type=event.type, object=view(event.object))
            except Expired:
                since = ""


ENVIRONMENT = Client()
"""What is used where no client is given."""


def _plural(kind: Any) -> str:
    if not isinstance(kind, str) or not kind:
        raise UsageError("there is no kind", 'Give the object a kind, such as "kind": "Agent".')
    try:
        return scheme.find(kind).plural
    except Problem:
        # A server may know kinds that its client does not.
        return kind.lower()


def _place(document: Mapping[str, Any], project: str | None) -> str | None:
    metadata = document.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return project or named


def _read(document: Mapping[str, Any]) -> View:
    found = view(document)
    assert isinstance(found, View)
    return found
