"""The store: grouped writes, snapshot reads, and waiting for the next change.

Which database is behind it is chosen by `open_sqlite` and `open_postgres`; everything above uses this class.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Literal, Self, TypeVar

import anyio
import anyio.lowlevel
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ._database import Database
from ._errors import CommitUncertain, StoreClosed, StoreError, StoreInUse, StoreTooNew, StoreUnavailable
from ._snapshot import Snapshot
from ._writer import Tx, Writer
from .schema import counter

__all__ = [
    "CommitUncertain",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreInUse",
    "StoreTooNew",
    "StoreUnavailable",
    "Tx",
    "position",
]

T = TypeVar("T")


async def position(conn: AsyncConnection) -> int:
    """The last version that the connection's snapshot holds: where a watch goes on after a listing."""
    return int((await conn.execute(sa.select(counter.c.value).where(counter.c.id == 1))).scalar_one())


class Store:
    """One database, open. Use it as an async context manager, or call `start` and `aclose`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = Writer(database, self._advance)
        self._follower: asyncio.Task[None] | None = None
        self._version = 0
        self.closing = False
        """Whether those who follow changes should stop."""
        self._moved = asyncio.Event()

    @property
    def dialect(self) -> Literal["sqlite", "postgres"]:
        """Which database it is."""
        return self._database.dialect

    async def start(self) -> None:
        """Opens the database and brings its tables to the newest revision.

        Raises StoreInUse (SQLite: held by another process), StoreTooNew, StoreUnavailable.
        """
        await self._database.open()
        try:
            await self._database.migrate()
            async with self.read() as conn:
                self._version = await position(conn)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await self._database.close()
            if isinstance(error, Exception) and self._database.lost(error):
                raise StoreUnavailable(f"the database cannot be opened: {error}") from error
            raise
        self._writer.start()
        self._follower = asyncio.create_task(self._database.follow(self._advance), name="store-follower")

    async def aclose(self) -> None:
        """Commits what waits, then closes all connections. Does nothing the second time."""
        follower, self._follower = self._follower, None
        if follower is None:
            return
        try:
            await self._writer.aclose()
        finally:
            with anyio.CancelScope(shield=True):
                follower.cancel()
                await asyncio.wait([follower])
                await self._database.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Runs `work` in a write transaction and answers with its result once it is committed.

        Works that wait together share a transaction; one that raises is undone alone and its error is raised here. A
        work may be run more than once (after a conflict, or a lost connection), so it changes nothing but the
        database, does not wait for anything else, and neither commits nor rolls back.

        A caller that is cancelled before its work has begun never wrote; one cancelled later may have written.
        Raises CommitUncertain if the connection broke during the commit, StoreUnavailable if the database could not
        take the write, StoreClosed if the store is not open.
        """
        return await self._writer.write(work)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection for reading: everything read through it belongs to one moment.

        Raises StoreUnavailable, as every query through it does, if the database could not be reached.
        """
        async with Snapshot(self._database) as conn:
            yield conn

    async def reclaim(self) -> bool:
        """Gives some space of deleted rows back to the file system; whether there is more. Postgres does so itself."""
        return await self.write(lambda tx: self._database.reclaim(tx.conn))

    def version(self) -> int:
        """The last version known here. Other processes may have committed later ones."""
        return self._version

    async def wait(self, after: int, timeout: float) -> int:
        """The last version known, as soon as it is above `after`; or after `timeout` seconds, whatever it is then.

        Once the store is `closing`, it does not wait any more.
        """
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(timeout):
            while self._version <= after and not self.closing:
                await self._moved.wait()
        return self._version

    def announce_closing(self) -> None:
        """Wake all who wait, and let none wait again: those who follow changes see `closing` and stop."""
        self.closing = True
        self._move()

    def _advance(self, version: int) -> None:
        if version > self._version:
            self._version = version
            self._move()

    def _move(self) -> None:
        # A new event each time: whoever waits on the old one wakes, and nobody has to clear it.
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
