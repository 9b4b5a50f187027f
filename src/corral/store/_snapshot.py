"""A connection for reading that outlives the cancellation of its reader, and says when the database is away.

A driver that is interrupted in the middle of a query loses its connection, and closing that takes longer than the
query. So a query that has begun is finished, and the cancellation is felt after it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

import anyio
from sqlalchemy import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection

from ._database import Database
from ._errors import StoreUnavailable

T = TypeVar("T")


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise


class Snapshot(AsyncConnection):
    """An AsyncConnection whose connecting, queries and closing are not cut off.

    Connecting and queries raise StoreUnavailable when the connection is lost.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database.reading)
        self._database = database

    async def start(self, is_ctxmanager: bool = False) -> Self:
        try:
            await self._reach(super().start(is_ctxmanager))
        except asyncio.CancelledError:
            await self.close()
            raise
        return self

    async def execute(self, *arguments: Any, **options: Any) -> CursorResult[Any]:
        return await self._reach(super().execute(*arguments, **options))

    async def close(self) -> None:
        await _whole(super().close())

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _reach(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await _whole(work)
        except Exception as error:
            if self._database.lost(error):
                raise StoreUnavailable(f"the database could not be read: {error}") from error
            raise
