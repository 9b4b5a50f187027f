"""What differs between the databases, so that everything else in the room is written once."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import anyio
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from .schema import counter

_TAKE = (
    sa.update(counter)
    .where(counter.c.id == 1)
    .values(value=counter.c.value + sa.bindparam("count", type_=sa.BigInteger))
    .returning(counter.c.value)
)


class Database(ABC):
    """One database: its engines, its clock, and what its errors mean."""

    dialect: ClassVar[Literal["sqlite", "postgres"]]
    writing: AsyncEngine
    """One connection, used by the writer alone."""
    reading: AsyncEngine
    """Several connections; each checkout sees one snapshot."""

    @abstractmethod
    async def open(self) -> None:
        """Makes the engines; takes what must be held while the store is open."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the connections and lets go of what `open` took."""

    @abstractmethod
    async def migrate(self) -> None:
        """Brings the tables to the newest revision."""

    @abstractmethod
    async def begin(self, conn: AsyncConnection) -> int:
        """Starts a write transaction. The answer is the time in milliseconds since 1970."""

    @abstractmethod
    def lost(self, error: Exception) -> bool:
        """Whether the error means that the database is out of reach for now."""

    @abstractmethod
    def conflict(self, error: Exception) -> bool:
        """Whether the transaction failed only because of another one, and would do when run again."""

    async def take_versions(self, conn: AsyncConnection, count: int) -> int:
        """The last of `count` consecutive new versions. The counter stays locked until the transaction ends."""
        return int((await conn.execute(_TAKE, {"count": count})).scalar_one())

    @abstractmethod
    async def ensure_alive(self, conn: AsyncConnection) -> None:
        """Raises if the transaction can only be rolled back, where a commit would not say so."""

    async def reclaim(self, conn: AsyncConnection) -> bool:
        """See `Store.reclaim`."""
        return False

    async def follow(self, heard: Callable[[int], None]) -> None:
        """Calls `heard` with versions that other processes have committed. Runs until it is cancelled."""
        await anyio.sleep_forever()
