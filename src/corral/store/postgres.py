"""Postgres: any number of processes on one database.

Other processes' commits are heard by NOTIFY, which is a hint, and found by polling, which is the truth. Statements are
prepared and kept on the server, so a PgBouncer in between needs session pooling, or version 1.21 with
`max_prepared_statements`; what it does to LISTEN is harmless, as the polling goes on.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import asyncpg  # type: ignore[import-untyped]
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from ._base import Store
from ._database import Database
from .migrations import migrate

READERS = 10
POLL = 1.0
"""Seconds between two looks at the counter."""
COMMAND_TIMEOUT = 60.0
"""Seconds after which a statement without an answer counts as a lost connection."""
CHANNEL = "corral_changes"

# A process that is stopped in mid-transaction would hold its locks, and the counter's, for ever; the server ends it.
_BEGIN = sa.text(
    "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint), "
    "set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '10s', true)"
)
_TAKE = sa.text(
    "WITH taken AS (UPDATE counter SET value = value + :count WHERE id = 1 RETURNING value) "
    f"SELECT value, pg_notify('{CHANNEL}', value::text) FROM taken"
).bindparams(sa.bindparam("count", type_=sa.BigInteger))
_PROBE = sa.text("SELECT 1")

# SQLSTATE: a whole class by its two characters, or one code. Appendix A of the Postgres manual.
_LOST = ("08", "57P", "53300", "25P03")
_CONFLICT = ("40001", "40P01", "55P03")
_LOST_ERRORS = (OSError, TimeoutError, asyncpg.PostgresConnectionError)

log = logging.getLogger(__name__)


def open_postgres(url: str) -> Store:
    """The store in the database that a `postgresql://` (or `postgres://`) URL names, with libpq's parameters."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in ("postgresql", "postgres"):
        raise ValueError(f"the database URL starts with {scheme!r}; it must start with postgresql://")
    return Store(_Postgres(f"postgresql://{rest}"))


class _Postgres(Database):
    dialect = "postgres"

    def __init__(self, url: str) -> None:
        self._connect = partial(asyncpg.connect, url)

    async def open(self) -> None:
        self.writing = self._engine(pool_size=1, max_overflow=0, isolation_level="READ COMMITTED")
        self.reading = self._engine(
            pool_size=READERS, max_overflow=0, pool_timeout=60, pool_pre_ping=True, isolation_level="REPEATABLE READ"
        )

    async def close(self) -> None:
        await self.reading.dispose()
        await self.writing.dispose()

    async def migrate(self) -> None:
        engine = create_async_engine("postgresql+asyncpg://", async_creator=self._connect, poolclass=NullPool)
        await migrate(engine)
        await engine.dispose()

    async def begin(self, conn: AsyncConnection) -> int:
        return int((await conn.execute(_BEGIN)).scalar_one())

    async def take_versions(self, conn: AsyncConnection, count: int) -> int:
        return int((await conn.execute(_TAKE, {"count": count})).scalar_one())

    async def ensure_alive(self, conn: AsyncConnection) -> None:
        # COMMIT of a transaction in which a statement failed answers ROLLBACK, without an error.
        await conn.execute(_PROBE)

    def lost(self, error: Exception) -> bool:
        if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
            return True
        return any(isinstance(e, _LOST_ERRORS) or _state(e).startswith(_LOST) for e in _causes(error))

    def conflict(self, error: Exception) -> bool:
        return any(_state(e) in _CONFLICT for e in _causes(error))

    async def follow(self, heard: Callable[[int], None]) -> None:
        while True:
            try:
                await self._listen(heard)
            except (*_LOST_ERRORS, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
                log.warning("not following the database for the moment: %s", error)
            await asyncio.sleep(POLL)

    async def _listen(self, heard: Callable[[int], None]) -> None:
        connection = await self._connect(command_timeout=COMMAND_TIMEOUT)
        try:
            await connection.add_listener(CHANNEL, lambda _connection, _pid, _channel, text: heard(int(text)))
            while True:
                heard(await connection.fetchval("SELECT value FROM counter WHERE id = 1"))
                await asyncio.sleep(POLL)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(2):
                await connection.close(timeout=1)

    def _engine(self, **options: Any) -> AsyncEngine:
        connect = partial(self._connect, command_timeout=COMMAND_TIMEOUT)
        return create_async_engine("postgresql+asyncpg://", async_creator=connect, hide_parameters=True, **options)


def _causes(error: Exception) -> list[Any]:
    """The error, and the driver's own beneath it."""
    found: list[Any] = [error]
    # Not only DBAPIError: what goes wrong while a lost connection is made anew comes as its base.
    if isinstance(error, sa.exc.StatementError) and error.orig is not None:
        found.append(error.orig)
        if error.orig.__cause__ is not None:
            found.append(error.orig.__cause__)
    return found


def _state(error: Any) -> str:
    return str(getattr(error, "sqlstate", None) or "")
