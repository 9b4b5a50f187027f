"""SQLite: one file, one process, write-ahead log.

`synchronous=FULL` (the default) keeps every acknowledged write through a power loss; `NORMAL` is faster, survives a
killed process, and may lose the last moments when the machine itself goes down.
"""

import fcntl
import os
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from ._base import Store
from ._cursor import connect
from ._database import Database
from ._errors import StoreInUse
from .migrations import migrate

READERS = 4
BUSY_MS = 10_000
RECLAIM_PAGES = 1000
WAL_LIMIT = 64 << 20
"""Bytes that the write-ahead log is cut back to after a checkpoint."""


def open_sqlite(path: str | Path, *, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> Store:
    """The store in the file `path`, which `start` makes if need be (mode 0600; the directory 0700).

    `start` raises StoreInUse while another process, or another store of this one, has the file open.
    """
    if synchronous not in ("FULL", "NORMAL"):
        raise ValueError(f"synchronous is {synchronous!r}; it must be FULL or NORMAL")
    return Store(_Sqlite(Path(path), synchronous))


class _Sqlite(Database):
    dialect = "sqlite"

    def __init__(self, path: Path, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._lock: int | None = None

    async def open(self) -> None:
        self._lock = await anyio.to_thread.run_sync(_claim, self._path)
        self.writing = self._engine(1, "BEGIN IMMEDIATE", f"synchronous={self._synchronous}")
        self.reading = self._engine(READERS, "BEGIN", "query_only=ON")

    async def close(self) -> None:
        await self.reading.dispose()
        await self.writing.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def migrate(self) -> None:
        await migrate(self.writing)

    async def begin(self, conn: AsyncConnection) -> int:
        await conn.begin()
        return time.time_ns() // 1_000_000

    async def ensure_alive(self, conn: AsyncConnection) -> None:
        """A failed statement leaves the transaction as it was."""

    def lost(self, error: Exception) -> bool:
        cause: Any = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        code = getattr(cause, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    def conflict(self, error: Exception) -> bool:
        return False

    async def reclaim(self, conn: AsyncConnection) -> bool:
        await conn.exec_driver_sql(f"PRAGMA incremental_vacuum({RECLAIM_PAGES})")
        return bool((await conn.exec_driver_sql("PRAGMA freelist_count")).scalar_one())

    def _engine(self, size: int, begin: str, *pragmas: str) -> AsyncEngine:
        engine = create_async_engine(
            # The URL names the kind of database only, but its pool is chosen by it: without a file, all share one.
            sa.URL.create("sqlite+aiosqlite", database=str(self._path)),
            async_creator=partial(connect, self._path),
            hide_parameters=True,
            pool_size=size,
            max_overflow=0,
            pool_timeout=60,
        )
        event.listen(engine.sync_engine, "connect", partial(_prepare, pragmas=pragmas))
        event.listen(engine.sync_engine, "begin", lambda conn: conn.exec_driver_sql(begin))
        return engine


def _prepare(connection: Any, _record: Any, pragmas: tuple[str, ...]) -> None:
    # Transactions are begun by hand: the driver's own BEGIN is deferred, and would fail late when it has to write.
    connection.isolation_level = None
    cursor = connection.cursor()
    # auto_vacuum has to come first: it is fixed as soon as the file has a page.
    for pragma in (
        f"busy_timeout={BUSY_MS}",
        "auto_vacuum=INCREMENTAL",
        "journal_mode=WAL",
        f"journal_size_limit={WAL_LIMIT}",
        "foreign_keys=ON",
        *pragmas,
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _claim(path: Path) -> int:
    """Makes the file private and takes its lock; the answer is the lock's descriptor. Raises StoreInUse."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(lock, 32).strip()
            raise StoreInUse(path, int(pid) if pid.isdigit() else 0) from None
        os.ftruncate(lock, 0)
        os.write(lock, b"%d\n" % os.getpid())
        # Made here because SQLite would use the umask; the log files beside it take the mode of the database.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
    except BaseException:
        os.close(lock)
        raise
    return lock
