"""Idempotency: what was answered to a request that carries a key, so that a repetition gets the same answer."""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ._base import Tx
from ._upsert import insert_new
from .schema import requests

_INSERT = insert_new(requests)
_FIND = sa.select(requests.c.body_sha256, requests.c.status, requests.c.body, requests.c.expires).where(
    *(requests.c[name] == sa.bindparam(name) for name in ("principal", "method", "path", "key"))
)


class KeyTaken(Exception):
    """Another request with the key was answered meanwhile; this one must not have an effect."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"a request with the idempotency key {key!r} has been answered already")


@dataclass(frozen=True)
class Answer:
    """An answer that was given. `body` is text as it was sent, `expires` in ms since 1970."""

    body_sha256: str
    """Of the request's body: a different body under the same key is an error of the caller."""
    status: int
    body: str
    expires: int


async def find(conn: AsyncConnection, principal: str, method: str, path: str, key: str) -> Answer | None:
    """The answer on record, or None. A record counts until `expire` removes it."""
    row = (await conn.execute(_FIND, {"principal": principal, "method": method, "path": path, "key": key})).first()
    return None if row is None else Answer(*row)


async def put(tx: Tx, principal: str, method: str, path: str, key: str, answer: Answer) -> None:
    """Records the answer, in the transaction of the request's effect. Raises KeyTaken, which undoes that effect."""
    row = {"principal": principal, "method": method, "path": path, "key": key, **vars(answer)}
    if not (await tx.execute(_INSERT, row)).rowcount:
        raise KeyTaken(key)


async def complete(tx: Tx, principal: str, method: str, path: str, key: str, body: str) -> None:
    """Fill in the answer's body, once the transaction knows the versions in it."""
    same = {"principal": principal, "method": method, "path": path, "key": key}
    statement = sa.update(requests).where(*(requests.c[name] == value for name, value in same.items()))
    await tx.execute(statement.values(body=body))


async def expire(tx: Tx, now: int) -> int:
    """Removes the records that expired before `now` (ms since 1970); answers with their number."""
    return (await tx.execute(sa.delete(requests).where(requests.c.expires < now))).rowcount
