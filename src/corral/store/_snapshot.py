"""A connection for reading that outlives the cancellation of its reader.

A driver that is interrupted in the middle of a query loses its connection, and closing that takes longer than the
query. So a query that has begun is finished, and the cancellation is felt after it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

import anyio
from sqlalchemy import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection

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
    """An AsyncConnection whose connecting, queries and closing are not cut off."""

    async def start(self, is_ctxmanager: bool = False) -> Self:
        try:
            await _whole(super().start(is_ctxmanager))
        except asyncio.CancelledError:
            await self.close()
            raise
        return self

    async def execute(self, *arguments: Any, **options: Any) -> CursorResult[Any]:
        return await _whole(super().execute(*arguments, **options))

    async def close(self) -> None:
        await _whole(super().close())

    async def __aexit__(self, *error: object) -> None:
        await self.close()
