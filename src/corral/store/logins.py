"""Logins that are under way. In the database, so that any server of it can go on with one; codes only as SHA-256."""

from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ._base import Tx
from .schema import logins


@dataclass(frozen=True)
class Login:
    """One login. Moments in ms since 1970."""

    digest: str
    """SHA-256 of the code that the program redeems."""
    expires: int
    client: str
    """What the program says of itself."""
    user_code: str | None = None
    """SHA-256 of the code that a person types."""
    challenge: str | None = None
    """The PKCE challenge (S256)."""
    state: str = "pending"
    """pending, approved or denied."""
    approver: str | None = None
    """SHA-256 of the key that approved."""
    interval: int = 0
    """Milliseconds that the program has to wait between two questions."""
    polled: int = 0
    """When it last asked."""


async def add(tx: Tx, login: Login) -> None:
    """Records the login."""
    await tx.execute(sa.insert(logins), asdict(login))


async def find(tx: Tx, digest: str) -> Login | None:
    """The login with that code, or None. Nobody else changes it before this transaction ends."""
    return await _one(tx, logins.c.digest == digest)


async def find_user_code(tx: Tx, digest: str) -> Login | None:
    """The login whose typed code has that SHA-256, or None, as `find`."""
    return await _one(tx, logins.c.user_code == digest)


async def change(tx: Tx, digest: str, **values: Any) -> None:
    """Sets fields of the login."""
    await tx.execute(sa.update(logins).where(logins.c.digest == digest).values(**values))


async def remove(tx: Tx, digest: str) -> None:
    """Ends the login: its code is used up."""
    await tx.execute(sa.delete(logins).where(logins.c.digest == digest))


async def purge(tx: Tx, before: int) -> int:
    """Removes logins that expired before that moment; answers with their number."""
    return (await tx.execute(sa.delete(logins).where(logins.c.expires < before))).rowcount


async def pending(conn: AsyncConnection) -> int:
    """How many logins there are."""
    return int((await conn.execute(sa.select(sa.func.count()).select_from(logins))).scalar_one())


async def _one(tx: Tx, where: sa.ColumnElement[bool]) -> Login | None:
    row = (await tx.execute(sa.select(logins).where(where).with_for_update())).first()
    return None if row is None else Login(**row._mapping)
