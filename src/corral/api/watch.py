"""Watches: the change log as a stream of events, one JSON document a line."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from corral.kinds import API_VERSION, Problem, Reason, Resource
from corral.store import changes, objects, position
from corral.verbs import access, selectors
from corral.verbs.objects import document
from corral.verbs.services import Caller, Services

from . import tables

BOOKMARK_SECONDS = 15.0


@dataclass(frozen=True)
class Watch:
    """What a client watches. `after` None: what exists first, as ADDED."""

    cls: type[Resource]
    namespace: str | None
    after: int | None
    label_selector: str = ""
    field_selector: str = ""
    bookmarks: bool = False
    as_table: bool = False


async def check(services: Services, caller: Caller, watch: Watch) -> None:
    """Refuse a position that has missed pruned changes. Raises Problem Expired, Forbidden."""
    access.check(caller, watch.cls, "read", watch.namespace)
    selectors.labels(watch.label_selector)
    selectors.fields(watch.field_selector)
    if watch.after is None:
        return
    async with services.store.read() as conn:
        if watch.after < await changes.floor(conn, watch.cls.__name__):
            message = f"changes after resourceVersion {watch.after} are not kept any more"
            raise Problem(Reason.Expired, message, fix="List again, and watch from the list's resourceVersion.")


async def events(services: Services, caller: Caller, watch: Watch) -> AsyncIterator[bytes]:
    """The lines of the stream. It ends when the client goes away, or the server, or when the key is revoked."""
    labels, fields = selectors.labels(watch.label_selector), selectors.fields(watch.field_selector)

    def fits(wire: Mapping[str, Any]) -> bool:
        return labels(wire) and fields(wire)

    known: set[str] = set()
    after = watch.after
    if after is None:
        after, existing = await _existing(services, caller, watch)
        for wire in filter(fits, existing):
            known.add(wire["metadata"]["uid"])
            # A table watch follows a table list, which has shown these already.
            if not watch.as_table:
                yield _line(watch, "ADDED", wire)
    while (news := await _news(services, caller, watch, after)) is not None:
        for change in news.visible:
            uid, wire = change.stored.uid, document(change.stored)
            if kind := _event(change.type, fits(wire), uid in known):
                (known.discard if kind == "DELETED" else known.add)(uid)
                yield _line(watch, kind, wire)
        after = news.upto
        if news.more:
            continue
        if await services.store.wait(news.seen, BOOKMARK_SECONDS) <= news.seen and watch.bookmarks:
            metadata = {"resourceVersion": str(after)}
            yield _json("BOOKMARK", {"apiVersion": API_VERSION, "kind": watch.cls.__name__, "metadata": metadata})


@dataclass(frozen=True)
class _News:
    visible: list[changes.Change]
    upto: int
    """Everything up to this position has been read."""
    more: bool
    seen: int
    """What was known before reading, to wait for what comes after."""


async def _news(services: Services, caller: Caller, watch: Watch, after: int) -> _News | None:
    """The next changes that the caller sees; None once the server ends or the key has been revoked."""
    if services.store.closing:
        return None
    seen = services.store.version()
    async with services.store.read() as conn:
        if not await access.holds(conn, caller):
            return None
        upto = await position(conn)
        batch = await changes.since(conn, watch.cls.__name__, watch.namespace, after)
    visible = [change for change in batch if access.sees(caller, change.stored)]
    return _News(visible, batch[-1].version if batch else max(after, upto), bool(batch), seen)


async def _existing(services: Services, caller: Caller, watch: Watch) -> tuple[int, list[dict[str, Any]]]:
    async with services.store.read() as conn:
        upto = await position(conn)
        found = await objects.listing(conn, watch.cls.__name__, watch.namespace)
    return upto, [document(stored) for stored in found if access.sees(caller, stored)]


def _event(change: str, fits: bool, known: bool) -> str:
    """What a change means to this watch: an object that stops fitting is DELETED for it."""
    if change == "DELETED":
        return "DELETED" if fits or known else ""
    if fits:
        return "MODIFIED" if known or change == "MODIFIED" else "ADDED"
    return "DELETED" if known else ""


def _line(watch: Watch, kind: str, wire: Mapping[str, Any]) -> bytes:
    return _json(kind, tables.table(watch.cls, [wire]) if watch.as_table else wire)


def _json(kind: str, shown: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": shown}, separators=(",", ":")).encode() + b"\n"
