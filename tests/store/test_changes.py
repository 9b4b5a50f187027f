"""The change log, on both databases, and what a follower of it sees while others write."""

import asyncio
from collections import Counter

import pytest
import sqlalchemy as sa

from conftest import Place
from corral.store import Store, Tx, changes, position
from corral.store import objects as rows
from corral.store.objects import Stored
from corral.store.postgres import open_postgres
from corral.store.schema import changes as table
from corral.store.schema import specs
from postgres import Server


async def make(store: Store, name: str, kind: str = "Thing", namespace: str = "p", n: int = 0) -> Stored:
    return await store.write(lambda tx: rows.create(tx, Stored.new(kind, namespace, name, spec={"n": n})))


async def test_changes_are_in_order_and_can_be_narrowed(store: Store) -> None:
    a = await make(store, "a")
    b = await make(store, "b", namespace="q")
    c = await make(store, "c", kind="Other")
    d = await store.write(lambda tx: rows.update(tx, a, spec={"n": 2}, status={"s": 1}))
    async with store.read() as conn:
        everything = await changes.since(conn, None, None, 0)
        assert [(x.version, x.type, x.stored) for x in everything] == [
            (a.version, "ADDED", a),
            (b.version, "ADDED", b),
            (c.version, "ADDED", c),
            (d.version, "MODIFIED", d),
        ]
        assert await changes.since(conn, None, None, b.version) == everything[2:]
        assert await changes.since(conn, "Thing", None, 0) == [everything[n] for n in (0, 1, 3)]
        assert await changes.since(conn, "Thing", "q", 0) == [everything[1]]
        assert await changes.since(conn, None, "p", 0, limit=2) == [everything[n] for n in (0, 2)]


async def test_a_read_is_one_moment(store: Store) -> None:
    await make(store, "a")
    async with store.read() as conn:
        before = await position(conn)
        await make(store, "b")
        assert await position(conn) == before
        assert len(await rows.listing(conn, "Thing", None)) == len(await changes.since(conn, None, None, 0)) == 1
    async with store.read() as conn:
        assert await position(conn) == before + 1


async def test_pruning_remembers_the_floor_of_each_kind(store: Store) -> None:
    a = await make(store, "a")
    other = await make(store, "o", kind="Other")
    late = await make(store, "b")
    await store.write(lambda tx: tx.execute(sa.update(table).values(at=table.c.version * 10)))
    async with store.read() as conn:
        assert (await changes.floor(conn, "Thing"), await changes.floor(conn, None)) == (0, 0)
    assert await store.write(lambda tx: changes.prune(tx, other.version * 10)) == 1
    async with store.read() as conn:
        assert await changes.floor(conn, "Thing") == await changes.floor(conn, None) == a.version
        assert await changes.floor(conn, "Other") == 0
        assert [x.stored.name for x in await changes.since(conn, None, None, 0)] == ["o", "b"]
    assert await store.write(lambda tx: changes.prune(tx, 10**12)) == 2
    assert await store.write(lambda tx: changes.prune(tx, 10**12)) == 0
    async with store.read() as conn:
        assert await changes.floor(conn, "Thing") == late.version
        assert await changes.floor(conn, "Other") == other.version
        assert await position(conn) == late.version
        assert await rows.revision(conn, a.uid, 1) == {"n": 0}, "specs of what lives stay"


async def test_specs_of_the_deleted_go_with_their_last_change(store: Store) -> None:
    kept, gone = await make(store, "kept"), await make(store, "gone")
    await store.write(lambda tx: rows.update(tx, gone, spec={"n": 2}))
    await store.write(lambda tx: rows.delete(tx, gone))
    assert await store.write(lambda tx: changes.prune(tx, 10**18, limit=3)) == 3
    async with store.read() as conn:
        assert await rows.revision(conn, gone.uid, 1) == {"n": 0}
        [last] = await changes.since(conn, None, None, 0)
        assert (last.type, last.stored.spec) == ("DELETED", {"n": 2})
    assert await store.write(lambda tx: changes.prune(tx, 10**18)) == 1
    async with store.read() as conn:
        assert (await conn.execute(sa.select(specs.c.uid))).scalars().all() == [kept.uid]


async def test_a_clock_set_back_makes_no_hole(store: Store) -> None:
    made = [await make(store, f"a{n}") for n in range(4)]
    for stored, at in zip(made, (10, 500, 10, 10), strict=True):
        await store.write(lambda tx, v=stored.version, at=at: tx.execute(_set_at, {"v": v, "to": at}))
    assert await store.write(lambda tx: changes.prune(tx, 100)) == 1
    async with store.read() as conn:
        assert await changes.floor(conn, "Thing") == made[0].version


_set_at = sa.update(table).where(table.c.version == sa.bindparam("v")).values(at=sa.bindparam("to"))


async def follow(store: Store, until: int) -> list[int]:
    """Polls the log as a watch does, and answers with the versions seen once there are `until` of them."""
    seen: list[int] = []
    last = 0
    while len(seen) < until:
        last = seen[-1] if seen else 0
        async with store.read() as conn:
            seen += [change.version for change in await changes.since(conn, None, None, last, limit=7)]
        if not seen or seen[-1] == last:
            await store.wait(last, 0.01)
    return seen


async def write_much(store: Store, label: str, count: int) -> list[int]:
    """Creates, changes and deletes from many tasks, some works with several changes and some that fail."""

    async def one(n: int) -> list[int]:
        made = await make(store, f"{label}{n}")

        async def twice(tx: Tx) -> list[int]:
            first = await rows.update(tx, made, spec={"n": n + 1})
            second = await rows.update(tx, first, status={"done": True})
            versions.extend((first, second))
            return []

        async def broken(tx: Tx) -> None:
            await rows.update(tx, made, status={"never": True})
            raise LookupError

        versions: list[Stored] = [made]
        await store.write(twice)
        with pytest.raises(LookupError):
            await store.write(broken)
        return [stored.version for stored in versions]

    gate = asyncio.Semaphore(25)

    async def gated(n: int) -> list[int]:
        async with gate:
            return await one(n)

    return [version for found in await asyncio.gather(*map(gated, range(count))) for version in found]


async def test_a_follower_sees_all_in_order_while_two_processes_write(postgres: Server) -> None:
    url = postgres.database()
    async with (
        open_postgres(url) as one,
        open_postgres(url) as two,
        open_postgres(url) as reader,
        asyncio.timeout(120),
        asyncio.TaskGroup() as tasks,
    ):
        followers = [tasks.create_task(follow(store, 600)) for store in (one, reader, reader)]
        writers = [tasks.create_task(write_much(store, label, 100)) for store, label in ((one, "a"), (two, "b"))]
        await asyncio.wait(followers)
    written = sorted(version for writer in writers for version in writer.result())
    assert Counter(written).most_common(1)[0][1] == 1
    for follower in followers:
        assert follower.result() == written


async def test_a_follower_sees_all_in_order_in_one_process(place: Place) -> None:
    async with place.open() as store, asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        follower = tasks.create_task(follow(store, 300))
        writer = tasks.create_task(write_much(store, "a", 100))
        await writer
    assert follower.result() == sorted(writer.result()) == list(range(1, 301))
