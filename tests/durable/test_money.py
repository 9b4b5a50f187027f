"""Property: at every instant, in every interleaving and wherever it is cut off, spent + reserved is under the cap."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.store import Store, Tx, blobs, executions
from corral.store.executions import Row
from corral.store.sqlite import open_sqlite

CAP = 1000
calls = st.lists(
    st.tuples(st.integers(1, 400), st.integers(0, 100), st.sampled_from(["settle", "uncertain", "leave"])),
    min_size=1,
    max_size=12,
)


async def _check(store: Store) -> Row:
    async with store.read() as conn:
        row = await executions.get(conn, "run")
    assert row is not None
    assert row.spent + row.reserved <= CAP
    assert row.reserved >= 0
    return row


async def _one(store: Store, reserve: int, percent: int, how: str) -> int:
    """One call in flight: (what it was booked at)."""
    if await store.write(lambda tx: executions.reserve(tx, "run", 1, reserve)) is None:
        return 0
    await _check(store)
    if how == "leave":
        return reserve
    cost = reserve if how == "uncertain" else reserve * percent // 100
    await store.write(lambda tx: executions.settle(tx, "run", 1, reserve, cost))
    await _check(store)
    return cost


async def _scenario(directory: str, plan: list[tuple[int, int, str]]) -> None:
    async with open_sqlite(Path(directory) / "db" / "corral.db", synchronous="NORMAL") as store:

        async def submit(tx: Tx) -> None:
            await executions.submit(tx, "run", "p", await blobs.keep(tx, None), cap=CAP, deadline=None)
            await executions.claim(tx, "w", 1)

        await store.write(submit)
        booked = await asyncio.gather(*(_one(store, *call) for call in plan))
        ended = await store.write(lambda tx: executions.end(tx, "run", 1, "failed", "", ""))
        assert ended is not None
        assert (ended.spent, ended.reserved) == (sum(booked), 0)
        await _check(store)


@settings(max_examples=25, deadline=None)
@given(calls)
def test_the_cap_holds_in_every_interleaving(plan: list[tuple[int, int, str]]) -> None:
    with TemporaryDirectory() as directory:
        asyncio.run(_scenario(directory, plan))
