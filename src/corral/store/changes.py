"""The change log: every write of every object, in the order of the commits. Watches are reads of it.

A reader that goes on from the last version it got sees every change exactly once, as no version becomes visible before
a lower one. Pruning remembers, for each kind, the highest version it took away (`floor`): a position below that has
missed something, any other is good however old it is.
"""

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ._base import Tx
from .objects import Stored, from_row
from .schema import changes, floors, specs

Type = Literal["ADDED", "MODIFIED", "DELETED"]

_SELECT = (
    sa.select(changes, specs.c.spec)
    .join(specs, (specs.c.uid == changes.c.uid) & (specs.c.generation == changes.c.generation))
    .order_by(changes.c.version)
)
_FLOORS = sa.text(
    "INSERT INTO floors (kind, version) SELECT kind, max(version) FROM changes WHERE version <= :cut GROUP BY kind "
    "ON CONFLICT (kind) DO UPDATE SET version = excluded.version"
)


@dataclass(frozen=True)
class Change:
    """One change, with the object as it was after it (`DELETED`: before it)."""

    version: int
    type: Type
    stored: Stored


async def since(
    conn: AsyncConnection, kind: str | None, namespace: str | None, after: int, limit: int = 500
) -> list[Change]:
    """The changes above version `after`, oldest first, at most `limit`; of one kind or, with None, of all."""
    statement = _SELECT.where(changes.c.version > after).limit(limit)
    if kind is not None:
        statement = statement.where(changes.c.kind == kind)
    if namespace is not None:
        statement = statement.where(changes.c.namespace == namespace)
    return [Change(row.version, row.type, from_row(row)) for row in await conn.execute(statement)]


async def floor(conn: AsyncConnection, kind: str | None) -> int:
    """The highest version of the kind (with None: of any) that was pruned; 0 if none was."""
    statement = sa.select(sa.func.max(floors.c.version))
    if kind is not None:
        statement = statement.where(floors.c.kind == kind)
    return int((await conn.execute(statement)).scalar() or 0)


async def prune(tx: Tx, before: int, limit: int = 1000) -> int:
    """Removes changes made before `before` (ms since 1970), oldest first, at most `limit`; answers with their number.

    Specs of objects that are deleted go with their last change. Call it again while the answer is `limit`.
    """
    oldest = await tx.execute(sa.select(changes.c.version, changes.c.at).order_by(changes.c.version).limit(limit))
    cut = 0
    # Only up to the first that is young enough to stay: a clock that was set back must not make a hole.
    for row in oldest.all():
        if row.at >= before:
            break
        cut = row.version
    if not cut:
        return 0
    await tx.execute(_FLOORS, {"cut": cut})
    # Nothing follows a DELETED, so no change that stays needs those specs.
    deleted = sa.select(changes.c.uid).where(changes.c.version <= cut, changes.c.type == "DELETED")
    await tx.execute(sa.delete(specs).where(specs.c.uid.in_(deleted)))
    return (await tx.execute(sa.delete(changes).where(changes.c.version <= cut))).rowcount
