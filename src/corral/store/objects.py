"""Objects: one row each, with every accepted spec beside it, and a change-log row for every write.

Functions that write answer with a new `Stored` and leave the one they were given as it is, so that a work may run
twice. Its `version` is `PENDING` until the transaction gives out versions, just before it commits.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from corral.base.clock import rfc3339
from corral.base.ids import new_uid
from corral.kinds import API_VERSION

from ._base import Tx
from ._json import dumps, loads
from ._upsert import insert_new
from .schema import changes, objects, specs

PENDING = -1
"""The version of what this transaction has written, until it is stamped."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSERT = insert_new(objects, "kind", "namespace", "name")
_SELECT = sa.select(objects, specs.c.spec).join(
    specs, (specs.c.uid == objects.c.uid) & (specs.c.generation == objects.c.generation)
)
_BY_NAME = _SELECT.where(
    objects.c.kind == sa.bindparam("kind"),
    objects.c.namespace == sa.bindparam("namespace"),
    objects.c.name == sa.bindparam("name"),
)
_BY_UID = _SELECT.where(objects.c.uid == sa.bindparam("uid"))
_LOCKED = _BY_UID.with_for_update(of=objects)
_UPDATE = (
    sa.update(objects)
    .where(objects.c.uid == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("generation", "version", "metadata", "status")})
)
_STAMP = sa.update(objects).where(objects.c.uid == sa.bindparam("of")).values(version=sa.bindparam("version"))
_DELETE = sa.delete(objects).where(objects.c.uid == sa.bindparam("of"))
_INSERT_SPEC = sa.insert(specs)
_INSERT_CHANGE = sa.insert(changes)


class NameTaken(Exception):
    """An object of the kind has the name already."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        self.kind, self.namespace, self.name = kind, namespace, name
        super().__init__(f"{kind} {name!r} exists already in {namespace!r}")


class VersionConflict(Exception):
    """The object changed since the caller read it. `actual` is `PENDING` if that is about to be committed."""

    def __init__(self, expected: int, actual: int) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(f"the object has changed since version {expected}; read it again and repeat the change")


class Gone(Exception):
    """The object was deleted in the meantime."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        super().__init__(f"the object {uid} has been deleted")


@dataclass
class Stored:
    """An object as it is stored. `created` in ms since 1970; 0 lets `create` take the time of the transaction."""

    uid: str
    kind: str
    namespace: str
    name: str
    generation: int = 0
    version: int = PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the caller may set, and what the server adds, beyond the fields here: labels, annotations and so on."""
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    created: int = 0
    disclosed: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """A part of the status that only the answer to the creation holds, such as a new key. Never stored."""

    @classmethod
    def new(
        cls,
        kind: str,
        namespace: str,
        name: str,
        *,
        metadata: dict[str, Any] | None = None,
        spec: dict[str, Any] | None = None,
        status: dict[str, Any] | None = None,
    ) -> "Stored":
        """An object with a uid of its own, to be given to `create`."""
        return cls(new_uid(), kind, namespace, name, metadata=metadata or {}, spec=spec or {}, status=status or {})

    def document(self) -> dict[str, Any]:
        """The object on the wire."""
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "metadata": {
                **self.metadata,
                "name": self.name,
                "namespace": self.namespace,
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "generation": self.generation,
                "creationTimestamp": rfc3339(_EPOCH + timedelta(milliseconds=self.created)),
            },
            "spec": self.spec,
            "status": self.status,
        }


async def create(tx: Tx, stored: Stored) -> Stored:
    """Adds the object, as generation 1. Raises NameTaken; the object that has the name stays as it is."""
    new = replace(stored, generation=1, version=PENDING, created=stored.created or tx.now)
    if not (await tx.execute(_INSERT, _row(new))).rowcount:
        raise NameTaken(new.kind, new.namespace, new.name)
    await _keep_spec(tx, new)
    _stamp(tx, "ADDED", new)
    return new


async def get(conn: AsyncConnection, kind: str, namespace: str, name: str) -> Stored | None:
    """The object of that name, or None."""
    return _maybe((await conn.execute(_BY_NAME, {"kind": kind, "namespace": namespace, "name": name})).first())


async def get_uid(conn: AsyncConnection, uid: str) -> Stored | None:
    """The object with that uid, or None."""
    return _maybe((await conn.execute(_BY_UID, {"uid": uid})).first())


async def revision(conn: AsyncConnection, uid: str, generation: int) -> dict[str, Any] | None:
    """The spec that the object had in that generation, or None."""
    statement = sa.select(specs.c.spec).where(specs.c.uid == uid, specs.c.generation == generation)
    text = (await conn.execute(statement)).scalar()
    return None if text is None else dict(loads(text))


async def update(
    tx: Tx,
    stored: Stored,
    *,
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    expected_version: int | None = None,
) -> Stored:
    """Replaces the parts that are given, in the row as it is now, and answers with the whole object.

    Only `stored.uid` is looked at. A new spec is a new generation. If nothing differs, nothing is written and no
    version is used up. Raises Gone, and VersionConflict if the row is not at `expected_version`.
    """
    current = await _lock(tx, stored.uid, expected_version)
    new = replace(
        current,
        metadata=current.metadata if metadata is None else metadata,
        spec=current.spec if spec is None else spec,
        status=current.status if status is None else status,
    )
    if new == current:
        return current
    new.version = PENDING
    if new.spec != current.spec:
        new.generation += 1
        await _keep_spec(tx, new)
    row = _row(new)
    values = {name: row[name] for name in ("generation", "version", "metadata", "status")}
    await tx.execute(_UPDATE, values | {"of": new.uid})
    _stamp(tx, "MODIFIED", new)
    return new


async def delete(tx: Tx, stored: Stored, *, expected_version: int | None = None) -> Stored:
    """Removes the object; the answer is its last state. Its specs stay as long as the change log needs them.

    Only `stored.uid` is looked at. Raises Gone, and VersionConflict if the row is not at `expected_version`.
    """
    current = await _lock(tx, stored.uid, expected_version)
    current.version = PENDING
    await tx.execute(_DELETE, {"of": current.uid})
    _stamp(tx, "DELETED", current)
    return current


async def listing(
    conn: AsyncConnection,
    kind: str,
    namespace: str | None,
    *,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[Stored]:
    """Objects of the kind by (namespace, name), in one namespace or, with None, in all.

    `after` is the (namespace, name) of the last object of the page before.
    """
    statement = _SELECT.where(objects.c.kind == kind).order_by(objects.c.namespace, objects.c.name).limit(limit)
    if namespace is not None:
        statement = statement.where(objects.c.namespace == namespace)
    if after is not None:
        statement = statement.where(sa.tuple_(objects.c.namespace, objects.c.name) > sa.tuple_(*after))
    return [from_row(row) for row in await conn.execute(statement)]


async def in_use(conn: AsyncConnection, namespace: str) -> bool:
    """Whether any object is in the namespace."""
    statement = sa.select(objects.c.uid).where(objects.c.namespace == namespace).limit(1)
    return (await conn.execute(statement)).first() is not None


async def _lock(tx: Tx, uid: str, expected_version: int | None) -> Stored:
    """The row as it is now; nobody else changes it before this transaction ends."""
    current = _maybe((await tx.execute(_LOCKED, {"uid": uid})).first())
    if current is None:
        raise Gone(uid)
    if expected_version is not None and current.version != expected_version:
        raise VersionConflict(expected_version, current.version)
    return current


async def _keep_spec(tx: Tx, stored: Stored) -> None:
    row = {"uid": stored.uid, "generation": stored.generation, "spec": dumps(stored.spec)}
    await tx.execute(_INSERT_SPEC, row)


def _stamp(tx: Tx, kind: str, stored: Stored) -> None:
    row = _row(stored) | {"type": kind, "at": tx.now}

    async def write(version: int) -> None:
        stored.version = version
        tx.defer(_INSERT_CHANGE, row | {"version": version})
        if kind != "DELETED":
            tx.defer(_STAMP, {"of": stored.uid, "version": version})

    tx.stamp(write)


def _row(stored: Stored) -> dict[str, Any]:
    return {
        "uid": stored.uid,
        "kind": stored.kind,
        "namespace": stored.namespace,
        "name": stored.name,
        "generation": stored.generation,
        "version": stored.version,
        "metadata": dumps(stored.metadata),
        "status": dumps(stored.status),
        "created": stored.created,
    }


def _maybe(row: Any) -> Stored | None:
    return None if row is None else from_row(row)


def from_row(row: Any) -> Stored:
    """The object in a row of `objects` or `changes`, joined with its spec."""
    return Stored(
        uid=row.uid,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        generation=row.generation,
        version=row.version,
        metadata=loads(row.metadata),
        spec=loads(row.spec),
        status=loads(row.status),
        created=row.created,
    )
