"""A program without a kind: what the durable core is tested with."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from corral.base import ids
from corral.durable.execution import Execution
from corral.durable.outcomes import Ending
from corral.durable.worker import Worker
from corral.store import Store, Tx, blobs, executions
from corral.store.executions import Row

Body = Callable[[Execution], Awaitable[Ending]]


@dataclass
class Scripted:
    """A program that runs a test's function and notes what it is told."""

    body: Body
    shown: list[tuple[str, str, str]] = field(default_factory=list)
    released: list[str] = field(default_factory=list)

    async def run(self, execution: Execution) -> Ending:
        return await self.body(execution)

    async def show(self, tx: Tx, row: Row) -> None:
        self.shown.append((row.id, row.state, row.reason))

    async def release(self, execution: str) -> None:
        self.released.append(execution)


@dataclass
class Bench:
    """A store with workers on it."""

    store: Store

    async def submit(self, *, cap: int | None = None, deadline: int | None = None, input: Any = None) -> str:
        execution = ids.new_uid()

        async def work(tx: Tx) -> None:
            kept = await blobs.keep(tx, input)
            await executions.submit(tx, execution, "scripted", kept, cap=cap, deadline=deadline)

        await self.store.write(work)
        return execution

    async def row(self, execution: str) -> Row:
        async with self.store.read() as conn:
            row = await executions.get(conn, execution)
        assert row is not None
        return row

    async def until(self, execution: str, *states: str) -> Row:
        with anyio.fail_after(20):
            while True:
                seen = self.store.version()
                if (row := await self.row(execution)).state in states:
                    return row
                await self.store.wait(seen, 0.1)

    @asynccontextmanager
    async def working(self, body: Body, store: Store | None = None) -> AsyncIterator[Scripted]:
        program = Scripted(body)
        worker = Worker(store or self.store, {"scripted": program})
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.run)
            try:
                yield program
            finally:
                tasks.cancel_scope.cancel()
