"""Lists of objects: selected, in order, page by page."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from corral.kinds import Problem, Reason, Resource
from corral.store import objects, position
from corral.store.objects import Stored

from . import access, selectors
from .objects import document
from .services import Caller, Services

_BATCH = 500
"""Objects read at once while only some of them are picked."""


@dataclass(frozen=True)
class Query:
    """What to list. `namespace` None: all projects."""

    cls: type[Resource]
    namespace: str | None
    label_selector: str = ""
    field_selector: str = ""
    limit: int | None = None
    continue_: str = ""


@dataclass(frozen=True)
class Page:
    """A part of a collection, and where the next begins."""

    items: list[dict[str, Any]]
    version: int
    continue_: str


async def listing(services: Services, caller: Caller, query: Query) -> Page:
    """Objects of the kind that the caller sees and that fit the selectors, by project and name. Raises Problem."""
    access.check(caller, query.cls, "read", query.namespace)
    labels, fields = selectors.labels(query.label_selector), selectors.fields(query.field_selector)
    after = _position(query.continue_) if query.continue_ else None
    picking = bool(query.label_selector or query.field_selector) or not caller.operates
    found: list[dict[str, Any]] = []
    async with services.store.read() as conn:
        version = await position(conn)
        while True:
            batch = await _batch(conn, query, after, picking)
            for stored in batch:
                wire = document(stored)
                if not (access.sees(caller, stored) and labels(wire) and fields(wire)):
                    continue
                if len(found) == query.limit:
                    return Page(found, version, _token(found[-1]))
                found.append(wire)
            if len(batch) < _BATCH:
                return Page(found, version, "")
            after = (batch[-1].namespace, batch[-1].name)


async def _batch(conn: AsyncConnection, query: Query, after: tuple[str, str] | None, picking: bool) -> list[Stored]:
    kind, name = query.cls.__name__, selectors.name_in(query.field_selector)
    if name is not None and query.namespace is not None:
        stored = await objects.get(conn, kind, query.namespace, name) if after is None else None
        return [stored] if stored is not None else []
    limit = _BATCH if picking or query.limit is None else min(query.limit + 1, _BATCH)
    return await objects.listing(conn, kind, query.namespace, after=after, limit=limit)


def _token(wire: dict[str, Any]) -> str:
    place = [wire["metadata"].get("namespace", ""), wire["metadata"]["name"]]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _position(token: str) -> tuple[str, str]:
    try:
        namespace, name = map(str, json.loads(base64.urlsafe_b64decode(token)))
        if b"\0" in (namespace + name).encode():
            raise ValueError("no name holds a NUL")
    except (TypeError, ValueError):
        raise Problem(Reason.Expired, "the continue token is not valid", fix="List again from the beginning.") from None
    return namespace, name
