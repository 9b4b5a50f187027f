"""Group commit: writes that wait together share one transaction, so that fifty writers pay for one fsync.

One task of each store does all its writing. It takes what waits (at most `BATCH`), runs the works one after the other
in one transaction, then gives out versions and commits. A caller hears of success only after the commit.

A work that raises is undone alone. As few do, a batch is first run without savepoints, which would be half of the cost
of a small write; if a work raises, the batch is rolled back and run again with a savepoint around each.

Locks on Postgres, where other processes write too: the works lock the rows they touch, in their own order, and the
counter is locked last and only for the moment before the commit. Two batches can still meet rows in opposite order;
Postgres then ends one of them, and its works are run again, each in a transaction of its own.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from sqlalchemy import CursorResult, Executable
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from ._database import Database
from ._errors import CommitUncertain, StoreClosed, StoreUnavailable

BATCH = 200
BACKOFF = (0.02, 0.1, 0.5, 1.0, 2.0)
"""Seconds before each further try of a transaction that failed for a passing reason."""

UNDO_SECONDS = 5.0
"""After that a connection that does not answer is dropped, which undoes what it began."""
WARY = 50
"""Batches that use savepoints from the start after one in which a work failed."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class Tx:
    """A write transaction, as one work sees it. It is committed, and rolled back, by the writer only."""

    __slots__ = ("callbacks", "conn", "deferred", "now", "stamps")

    def __init__(self, conn: AsyncConnection, now: int) -> None:
        self.conn = conn
        self.now = now
        """Milliseconds since 1970 by the database's clock; the same for all works of a transaction."""
        self.stamps: list[Callable[[int], Awaitable[None]]] = []
        self.deferred: list[tuple[Executable, dict[str, Any]]] = []
        self.callbacks: list[Callable[[], None]] = []

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        """Runs a statement."""
        return await self.conn.execute(statement, parameters)

    def stamp(self, fn: Callable[[int], Awaitable[None]]) -> None:
        """Has `fn` called with a new version just before the commit, in the order of the calls to `stamp`.

        Versions follow the order of commits: none becomes visible before a lower one. Dropped if the work fails.
        """
        self.stamps.append(fn)

    def defer(self, statement: Executable, row: dict[str, Any]) -> None:
        """Has the statement run at the end of the transaction, together with all that defer the same one.

        For what a stamp writes, as one execution for fifty rows is cheaper than fifty. The same statement object each
        time, so a constant. Rows keep their order, statements the order of their first use.
        """
        self.deferred.append((statement, row))

    def after_commit(self, fn: Callable[[], None]) -> None:
        """Has `fn` called once the transaction is committed, before the caller of `write` goes on."""
        self.callbacks.append(fn)


@dataclass(eq=False, slots=True)
class _Job:
    work: Callable[[Tx], Awaitable[Any]]
    future: asyncio.Future[Any]
    tx: Tx | None = None
    result: Any = None
    error: Exception | None = None


class _Spoiled(Exception):
    """A work failed in a transaction without savepoints."""


@dataclass(eq=False)
class Writer:
    """The queue of works and the loop that commits them. `committed` hears the last version of each transaction."""

    database: Database
    committed: Callable[[int], None]
    _jobs: deque[_Job] = field(default_factory=deque)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    _wary: int = 0
    _open: bool = False
    _task: asyncio.Task[None] | None = None
    _conn: AsyncConnection | None = None

    def start(self) -> None:
        """Begins to take works."""
        self._open = True
        self._task = asyncio.create_task(self._loop(), name="store-writer")

    async def aclose(self) -> None:
        """Takes no more works, commits those that wait, and lets the connection go."""
        self._open = False
        self._ready.set()
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """See `Store.write`."""
        if not self._open:
            raise StoreClosed("the store is not open for writing")
        if asyncio.current_task() is self._task:
            raise RuntimeError("a work must not call write: it runs in the writer, which would wait for itself")
        job = _Job(work, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._ready.set()
        result: T = await job.future
        return result

    async def _loop(self) -> None:
        batch: list[_Job] = []
        try:
            while self._jobs or self._open:
                if batch := self._take():
                    await self._settle(batch)
                else:
                    self._ready.clear()
                    await self._ready.wait()
        finally:
            # Only a loop that is shut down gets here with works undone.
            self._open = False
            _fail(batch, CommitUncertain())
            _fail(list(self._jobs), StoreClosed("the store was shut down before the write began"))
            self._jobs.clear()
            await self._let_go()

    def _take(self) -> list[_Job]:
        batch: list[_Job] = []
        while self._jobs and len(batch) < BATCH:
            job = self._jobs.popleft()
            if not job.future.cancelled():
                batch.append(job)
        return batch

    async def _settle(self, batch: list[_Job]) -> None:
        """Commits the batch, with further tries; every job of it has its outcome afterwards."""
        guarded = len(batch) > 1 and self._wary > 0
        self._wary -= guarded
        delays = iter(BACKOFF)
        while True:
            try:
                last = await self._transact(batch, guarded)
            except CommitUncertain as error:
                await self._let_go()
                return _fail(batch, error)
            except _Spoiled:
                await self._undo()
                guarded, self._wary = True, WARY
            except Exception as error:
                await self._undo()
                lost = self.database.lost(error)
                if len(batch) > 1 and not lost:
                    return await self._settle_each(batch)
                if not lost and not self.database.conflict(error):
                    return _fail(batch, error)
                delay = next(delays, None)
                if delay is None:
                    return _fail(batch, _unavailable(error))
                log.warning("a write failed for a passing reason and is tried again: %s", error)
                await asyncio.sleep(delay)
            else:
                return self._deliver(batch, last)

    async def _settle_each(self, batch: list[_Job]) -> None:
        """Each job in its own transaction: what broke the common one then breaks only its own."""
        for job in batch:
            await self._settle([job])

    async def _transact(self, batch: list[_Job], guarded: bool) -> int:
        """One transaction. The answer is the last version it gave out, or 0."""
        conn = self._conn
        if conn is None:
            conn = self._conn = await self.database.writing.connect()
        now = await self.database.begin(conn)
        for job in batch:
            job.tx, job.error = Tx(conn, now), None
            await (self._run_guarded(conn, job) if guarded else self._run(job))
            if job.error is not None and not guarded and len(batch) > 1:
                raise _Spoiled
        done = [job.tx for job in batch if job.error is None and job.tx is not None]
        if not done:
            await conn.rollback()
            return 0
        last = await self._finish(conn, done)
        if not last and len(batch) == 1:
            await self.database.ensure_alive(conn)
        try:
            await conn.commit()
        except Exception as error:
            if self.database.dialect == "postgres" and self.database.lost(error):
                raise CommitUncertain() from error
            raise
        return last

    async def _run_guarded(self, conn: AsyncConnection, job: _Job) -> None:
        await conn.exec_driver_sql("SAVEPOINT work")
        await self._run(job)
        if job.error is not None:
            await conn.exec_driver_sql("ROLLBACK TO SAVEPOINT work")
        await conn.exec_driver_sql("RELEASE SAVEPOINT work")

    async def _run(self, job: _Job) -> None:
        """Runs the work and keeps its result or its error. Raises only what concerns the whole transaction."""
        assert job.tx is not None
        try:
            job.result = await job.work(job.tx)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Something that the work awaited was cancelled; that must not end the writer.
            job.error = RuntimeError("a work was cancelled from within")
            job.error.__cause__ = error
        except SQLAlchemyError as error:
            if self.database.lost(error) or self.database.conflict(error):
                raise
            job.error = error
        except Exception as error:
            job.error = error

    async def _finish(self, conn: AsyncConnection, done: list[Tx]) -> int:
        """Gives out versions and runs what was deferred."""
        stamps = [fn for tx in done for fn in tx.stamps]
        last = await self.database.take_versions(conn, len(stamps)) if stamps else 0
        for version, fn in enumerate(stamps, last - len(stamps) + 1):
            await fn(version)
        rows: dict[Executable, list[dict[str, Any]]] = {}
        for tx in done:
            for statement, row in tx.deferred:
                rows.setdefault(statement, []).append(row)
        for statement, values in rows.items():
            await conn.execute(statement, values)
        return last

    def _deliver(self, batch: list[_Job], last: int) -> None:
        if last:
            self.committed(last)
        for job in batch:
            if job.error is None and job.tx is not None:
                for fn in job.tx.callbacks:
                    _notify(fn)
            if job.future.done():
                continue
            if job.error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(job.error)

    async def _undo(self) -> None:
        """Rolls back, or drops a connection that cannot even do that."""
        if self._conn is None:
            return
        try:
            async with asyncio.timeout(UNDO_SECONDS):
                await self._conn.rollback()
        except Exception:
            log.debug("the rollback failed too; the connection is dropped", exc_info=True)
            await self._let_go()

    async def _let_go(self) -> None:
        conn, self._conn = self._conn, None
        if conn is None:
            return
        try:
            if conn.in_transaction():
                await conn.invalidate()
            await conn.close()
        except Exception:
            log.debug("a connection could not be closed in order", exc_info=True)


def _fail(batch: list[_Job], error: Exception) -> None:
    for job in batch:
        if not job.future.done():
            job.future.set_exception(error)


def _unavailable(error: Exception) -> StoreUnavailable:
    problem = StoreUnavailable(f"the database could not take the write, also when tried again: {error}")
    problem.__cause__ = error
    return problem


def _notify(fn: Callable[[], None]) -> None:
    try:
        fn()
    except Exception:
        log.exception("a callback after commit failed")
