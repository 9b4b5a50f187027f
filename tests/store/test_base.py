"""Grouped writes, reads and waiting, on both databases."""

import asyncio
import contextlib
import time

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Place
from corral.store import Store, StoreClosed, Tx, position
from corral.store.schema import workers

ADD = sa.insert(workers)
SOON = 20


async def add(tx: Tx, name: str, until: int = 0) -> str:
    await tx.execute(ADD, {"id": name, "until": until})
    return name


async def names(store: Store) -> set[str]:
    async with store.read() as conn:
        return set((await conn.execute(sa.select(workers.c.id))).scalars())


async def together(store: Store, *works: object) -> list[object]:
    """The outcomes of works that share a batch: all are queued before the writer gets its turn."""
    return await asyncio.gather(*(store.write(work) for work in works), return_exceptions=True)  # type: ignore[arg-type]


async def test_a_result_comes_after_the_commit(store: Store) -> None:
    assert await store.write(lambda tx: add(tx, "a")) == "a"
    assert await names(store) == {"a"}


async def test_works_that_wait_together_share_a_transaction(store: Store) -> None:
    async def transaction(tx: Tx) -> str:
        if store.dialect == "sqlite":
            return str(tx.now)
        return str((await tx.execute(sa.text("SELECT pg_current_xact_id()::text"))).scalar_one())

    seen = await together(store, *[transaction] * 150)
    assert len(set(seen)) == 1
    seen = await together(store, *[transaction] * 450)
    assert store.dialect == "sqlite" or len(set(seen)) == 3, "at most 200 in one"


async def test_a_work_that_fails_is_undone_alone(store: Store) -> None:
    async def raises(tx: Tx) -> None:
        await add(tx, "never")
        tx.stamp(stamped)
        tx.after_commit(lambda: called.append("never"))
        raise LookupError("mine")

    async def breaks_a_rule(tx: Tx) -> None:
        await add(tx, "never")
        await add(tx, "never")

    async def stamped(version: int) -> None:
        called.append(version)

    async def good(tx: Tx, name: str) -> str:
        tx.after_commit(lambda: called.append(name))
        return await add(tx, name)

    called: list[object] = []
    outcomes = await together(
        store, lambda tx: good(tx, "a"), raises, lambda tx: good(tx, "b"), breaks_a_rule, lambda tx: good(tx, "c")
    )
    assert outcomes[0::2] == ["a", "b", "c"] == called
    assert isinstance(outcomes[1], LookupError) and str(outcomes[1]) == "mine"
    assert isinstance(outcomes[3], sa.exc.IntegrityError)
    assert await names(store) == {"a", "b", "c"}
    assert store.version() == 0, "the version of a failed work is not used up"


async def test_a_failing_stamp_fails_only_its_own_work(store: Store) -> None:
    async def bad(tx: Tx) -> None:
        async def stamp(version: int) -> None:
            raise LookupError(version)

        await add(tx, "never")
        tx.stamp(stamp)

    outcomes = await together(store, lambda tx: add(tx, "a"), bad, lambda tx: add(tx, "b"))
    assert outcomes[0::2] == ["a", "b"]
    assert isinstance(outcomes[1], LookupError)
    assert await names(store) == {"a", "b"}


async def test_a_work_alone_that_hides_a_database_error_is_not_acknowledged_unless_it_is_stored(store: Store) -> None:
    async def hides(tx: Tx) -> str:
        await add(tx, "a")
        with contextlib.suppress(sa.exc.IntegrityError):
            await add(tx, "a")
        return "fine"

    [outcome] = await together(store, hides)
    assert (outcome == "fine") == (await names(store) == {"a"})
    assert await store.write(lambda tx: add(tx, "b")) == "b", "the writer goes on"


async def test_versions_are_consecutive_in_the_order_of_the_stamps(store: Store) -> None:
    given: list[tuple[str, int]] = []

    async def work(tx: Tx, name: str, count: int) -> None:
        for n in range(count):

            async def stamp(version: int, n: int = n) -> None:
                given.append((f"{name}{n}", version))

            tx.stamp(stamp)

    await together(store, lambda tx: work(tx, "a", 2), lambda tx: work(tx, "b", 0), lambda tx: work(tx, "c", 1))
    assert given == [("a0", 1), ("a1", 2), ("c0", 3)]
    assert store.version() == 3
    async with store.read() as conn:
        assert await position(conn) == 3


async def test_deferred_rows_are_written_in_order(store: Store) -> None:
    update = sa.update(workers).where(workers.c.id == sa.bindparam("of")).values(until=sa.bindparam("value"))

    async def work(tx: Tx, value: int) -> None:
        tx.defer(update, {"of": "a", "value": value})

    await store.write(lambda tx: add(tx, "a"))
    await together(store, *(lambda tx, v=v: work(tx, v) for v in range(1, 6)))
    async with store.read() as conn:
        assert (await conn.execute(sa.select(workers.c.until))).scalars().all() == [5]


async def test_the_time_is_the_time_of_day(store: Store) -> None:
    async def now(tx: Tx) -> int:
        return tx.now

    assert abs(await store.write(now) - time.time() * 1000) < 60_000


async def test_a_failing_callback_harms_nobody(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    async def work(tx: Tx) -> str:
        tx.after_commit(lambda: 1 / 0)
        return await add(tx, "a")

    assert await store.write(work) == "a"
    assert "ZeroDivisionError" in caplog.text


async def test_a_caller_cancelled_before_its_work_begins_writes_nothing(store: Store) -> None:
    task = asyncio.create_task(store.write(lambda tx: add(tx, "never")))
    await asyncio.sleep(0)  # it is queued now, and the writer has not had its turn
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.write(lambda tx: add(tx, "a"))
    assert await names(store) == {"a"}


async def test_a_caller_cancelled_in_a_running_batch_harms_nobody(store: Store) -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    async def slow(tx: Tx) -> None:
        await add(tx, "a")
        running.set()
        await go_on.wait()

    cancelled = asyncio.create_task(store.write(slow))
    neighbour = asyncio.create_task(store.write(lambda tx: add(tx, "b")))
    await running.wait()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    go_on.set()
    assert await neighbour == "b"
    assert await names(store) == {"a", "b"}


async def test_a_cancellation_inside_a_work_does_not_end_the_writer(store: Store) -> None:
    async def work(tx: Tx) -> None:
        await add(tx, "never")
        raise asyncio.CancelledError

    outcomes = await together(store, work, lambda tx: add(tx, "a"))
    assert isinstance(outcomes[0], RuntimeError)
    assert await names(store) == {"a"}


async def test_a_write_within_a_work_is_refused_and_does_not_hang(store: Store) -> None:
    async def work(tx: Tx) -> None:
        await store.write(lambda tx: add(tx, "never"))

    with pytest.raises(RuntimeError, match="must not call write"):
        await asyncio.wait_for(store.write(work), SOON)


async def test_closing_commits_what_waits_and_refuses_more(place: Place) -> None:
    store = place.open()
    with pytest.raises(StoreClosed):
        await store.write(lambda tx: add(tx, "too early"))
    await store.start()
    tasks = [asyncio.create_task(store.write(lambda tx, n=n: add(tx, f"w{n}"))) for n in range(300)]
    await asyncio.sleep(0)
    await store.aclose()
    assert [task.result() for task in tasks] == [f"w{n}" for n in range(300)]
    with pytest.raises(StoreClosed):
        await store.write(lambda tx: add(tx, "too late"))
    await store.aclose()
    async with place.open() as again:
        assert len(await names(again)) == 300


async def test_a_wait_ends_with_the_next_commit_or_in_time(store: Store) -> None:
    async def stamped(tx: Tx) -> None:
        async def nothing(version: int) -> None:
            pass

        tx.stamp(nothing)

    assert await store.wait(0, 0.01) == 0
    waiting = [asyncio.create_task(store.wait(0, SOON)) for _ in range(100)]
    beyond = asyncio.create_task(store.wait(1, SOON))
    await asyncio.sleep(0)
    await store.write(stamped)
    assert set(await asyncio.gather(*waiting)) == {1}
    assert not beyond.done()
    await store.write(stamped)
    assert await beyond == 2
    assert await store.wait(0, SOON) == 2, "at once when it is past already"


async def test_reads_that_are_cancelled_leave_the_store_usable(store: Store) -> None:
    await store.write(lambda tx: add(tx, "a"))

    async def read() -> None:
        async with store.read() as conn:
            for _ in range(50):
                await conn.execute(sa.select(workers))

    for turn in range(30):
        task = asyncio.create_task(read())
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    async with asyncio.timeout(SOON):
        assert await asyncio.gather(*(names(store) for _ in range(30))) == [{"a"}] * 30


WORKS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["", "", "", "before", "after", "rule"])), min_size=1, max_size=12
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(WORKS, min_size=1, max_size=4))
async def test_any_mix_of_works_is_stored_exactly_as_acknowledged(
    store: Store, batches: list[list[tuple[int, str]]]
) -> None:
    await store.write(lambda tx: tx.execute(sa.delete(workers)))
    given: list[tuple[str, int]] = []

    async def work(tx: Tx, name: str, stamps: int, failure: str) -> str:
        mine = [row for row in given if row[0] != name]
        given[:] = mine  # the work may run again
        for _ in range(stamps):

            async def stamp(version: int) -> None:
                given.append((name, version))

            tx.stamp(stamp)
        if failure == "before":
            raise LookupError
        await add(tx, name)
        if failure == "rule":
            await add(tx, name)
        if failure == "after":
            raise LookupError
        return name

    expected: dict[str, int] = {}
    for number, batch in enumerate(batches):
        start = store.version()
        works = [(f"{number}.{n}", stamps, failure) for n, (stamps, failure) in enumerate(batch)]
        outcomes = await together(store, *(lambda tx, w=w: work(tx, *w) for w in works))
        for outcome, (name, stamps, failure) in zip(outcomes, works, strict=True):
            assert (outcome == name) == (not failure)
            if not failure:
                expected[name] = stamps
        order = [name for name, stamps, failure in works if not failure for _ in range(stamps)]
        stamped = [row for row in given if row[1] > start]
        assert stamped == list(zip(order, range(start + 1, start + 1 + len(order)), strict=True))
    assert await names(store) == set(expected)
