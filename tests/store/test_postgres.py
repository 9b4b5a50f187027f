"""What is Postgres' own: other processes, lost connections, and locks."""

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from corral.store import CommitUncertain, Store, StoreError, StoreUnavailable, Tx
from corral.store import objects as rows
from corral.store import postgres as module
from corral.store.objects import NameTaken, Stored, VersionConflict
from corral.store.postgres import open_postgres
from corral.store.schema import workers
from postgres import Server

SOON = 30
SOCKET = ".s.PGSQL.5432"
ADD = sa.insert(workers)
TOUCH = sa.update(workers).where(workers.c.id == sa.bindparam("of")).values(until=workers.c.until + 1)


async def add(tx: Tx, name: str) -> str:
    await tx.execute(ADD, {"id": name, "until": 0})
    return name


async def names(store: Store) -> set[str]:
    async with store.read() as conn:
        return set((await conn.execute(sa.select(workers.c.id))).scalars())


async def stamped(tx: Tx) -> None:
    async def nothing(version: int) -> None:
        pass

    tx.stamp(nothing)


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with open_postgres(url) as store:
        yield store


async def test_urls_of_either_scheme_are_taken_and_others_refused(url: str) -> None:
    async with open_postgres(url.replace("postgresql://", "postgres://")) as store:
        assert await store.write(lambda tx: add(tx, "a")) == "a"
    for wrong in ("mysql://x/y", "postgresql+asyncpg://x/y", "corral.db"):
        with pytest.raises(ValueError, match="must start with postgresql://"):
            open_postgres(wrong)


async def test_another_process_commit_is_heard_at_once(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL", 3600.0)
    async with open_postgres(url) as other:
        for version in range(1, 4):
            waiting = asyncio.create_task(other.wait(version - 1, SOON))
            await asyncio.sleep(0)
            await store.write(stamped)
            assert await waiting == version


async def test_another_process_commit_is_found_without_a_notification(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHANNEL", "nobody_sends_here")
    monkeypatch.setattr(module, "POLL", 0.05)
    async with open_postgres(url) as other:
        await store.write(stamped)
        assert await other.wait(0, SOON) == 1


async def test_the_follower_comes_back_after_its_connection_broke(
    store: Store, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL", 0.05)
    async with open_postgres(url) as other:
        postgres.psql(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        await store.write(stamped)
        assert await other.wait(0, SOON) == 1
        assert await names(other) == set(), "and reads go on with a fresh connection"


async def test_a_connection_lost_before_the_commit_is_made_anew_and_nothing_is_lost_or_doubled(
    store: Store, url: str, postgres: Server
) -> None:
    runs = itertools.count()

    async def work(tx: Tx) -> str:
        await add(tx, "a")
        if next(runs) == 0:
            pid = (await tx.execute(sa.text("SELECT pg_backend_pid()"))).scalar_one()
            postgres.psql(url, f"SELECT pg_terminate_backend({pid})")
        return await add(tx, "b")

    writes = (store.write(work), store.write(lambda tx: add(tx, "c")))
    assert await asyncio.gather(*writes) == ["b", "c"]
    assert next(runs) == 2
    assert await names(store) == {"a", "b", "c"}


async def test_a_work_that_hides_a_database_error_is_refused(store: Store) -> None:
    async def hides(tx: Tx) -> None:
        await add(tx, "a")
        with contextlib.suppress(sa.exc.IntegrityError):
            await add(tx, "a")

    with pytest.raises(sa.exc.DBAPIError, match="current transaction is aborted"):
        await store.write(hides)
    assert await names(store) == set()


async def test_a_parameter_of_the_wrong_type_is_the_works_own_error(store: Store) -> None:
    async def wrong(tx: Tx) -> None:
        await tx.execute(ADD, {"id": "a", "until": "soon"})

    outcomes = await asyncio.gather(store.write(wrong), store.write(lambda tx: add(tx, "b")), return_exceptions=True)
    assert isinstance(outcomes[0], sa.exc.DBAPIError)
    assert outcomes[1] == "b"


async def test_batches_that_lock_in_opposite_order_both_end_well(store: Store, url: str) -> None:
    await store.write(lambda tx: add(tx, "x"))
    await store.write(lambda tx: add(tx, "y"))
    async with open_postgres(url) as other:
        holds = {"x": asyncio.Event(), "y": asyncio.Event()}

        def work(name: str, wait_for: str | None) -> Callable[[Tx], object]:
            async def touch(tx: Tx) -> None:
                if wait_for:
                    await holds[wait_for].wait()
                await tx.execute(TOUCH, {"of": name})
                holds[name].set()

            return touch

        # Each store's batch holds one row before it asks for the other's.
        works = [(store, "x", None), (store, "y", "y"), (other, "y", None), (other, "x", "x")]
        async with asyncio.timeout(SOON):
            await asyncio.gather(*(where.write(work(name, wait)) for where, name, wait in works))  # type: ignore[arg-type]
        async with store.read() as conn:
            assert (await conn.execute(sa.select(workers.c.until))).scalars().all() == [2, 2]


async def test_a_work_that_loses_a_deadlock_is_run_again(store: Store, url: str) -> None:
    await store.write(lambda tx: add(tx, "x"))
    await store.write(lambda tx: add(tx, "y"))
    async with open_postgres(url) as other, asyncio.timeout(SOON):
        held: set[str] = set()
        both = asyncio.Event()
        runs = itertools.count()

        async def cross(tx: Tx, first: str, second: str) -> None:
            next(runs)
            await tx.execute(TOUCH, {"of": first})
            held.add(first)
            if len(held) == 2:
                both.set()
            await both.wait()
            await tx.execute(TOUCH, {"of": second})

        await asyncio.gather(store.write(lambda tx: cross(tx, "x", "y")), other.write(lambda tx: cross(tx, "y", "x")))
        assert next(runs) == 3
        async with store.read() as conn:
            assert (await conn.execute(sa.select(workers.c.until))).scalars().all() == [2, 2]


async def test_names_and_expected_versions_hold_between_processes(store: Store, url: str) -> None:
    async with open_postgres(url) as other:
        made = [
            asyncio.create_task(where.write(lambda tx: rows.create(tx, Stored.new("Thing", "p", "a"))))
            for where in (store, other) * 5
        ]
        outcomes = await asyncio.gather(*made, return_exceptions=True)
        [first] = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
        assert sum(isinstance(outcome, NameTaken) for outcome in outcomes) == 9
        changed = [
            asyncio.create_task(
                where.write(lambda tx, n=n: rows.update(tx, first, status={"n": n}, expected_version=first.version))
            )
            for n, where in enumerate((store, other) * 5)
        ]
        outcomes = await asyncio.gather(*changed, return_exceptions=True)
        assert sum(isinstance(outcome, Stored) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, VersionConflict) for outcome in outcomes) == 9


async def test_a_stopped_process_cannot_hold_its_locks_for_ever(store: Store) -> None:
    async def settings(tx: Tx) -> list[str]:
        names = ("idle_in_transaction_session_timeout", "lock_timeout")
        return [(await tx.execute(sa.text(f"SHOW {name}"))).scalar_one() for name in names]

    assert await store.write(settings) == ["10s", "10s"]


async def test_acknowledged_writes_outlive_a_crash_of_the_server(own_postgres: Server) -> None:
    acknowledged: set[str] = set()
    async with open_postgres(own_postgres.database()) as store:

        async def lane(number: int) -> None:
            for n in itertools.count():
                if crashed.is_set() and n >= enough[number]:
                    return
                with contextlib.suppress(StoreError):
                    acknowledged.add(await store.write(lambda tx, n=n: add(tx, f"{number}.{n}")))
                    if len(acknowledged) >= 200:
                        many.set()
                if not crashed.is_set():
                    enough[number] = n + 20

        crashed, many = asyncio.Event(), asyncio.Event()
        enough = dict.fromkeys(range(10), 0)
        async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
            for number in range(10):
                tasks.create_task(lane(number))
            await many.wait()
            await asyncio.to_thread(own_postgres.stop, signal.SIGQUIT)
            before = set(acknowledged)
            await asyncio.to_thread(own_postgres.start)
            crashed.set()
        assert len(acknowledged) > len(before) >= 200, "writing went on by itself"
        assert acknowledged <= await names(store)


class Cutter:
    """Stands between store and server. At a COMMIT it cuts the connection, before or after passing that on; or, with
    `silent`, it passes on nothing more.
    """

    def __init__(self, server: Path, here: Path) -> None:
        self.server, self.here = server / SOCKET, here / SOCKET
        self.mode = ""

    async def __aenter__(self) -> "Cutter":
        self._listener = await asyncio.start_unix_server(self._serve, self.here)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self.server)
        answers = asyncio.create_task(_pump(server_reader, writer))
        try:
            while data := await reader.read(65536):
                if self.mode and b"COMMIT;" in data:
                    answers.cancel()
                    await asyncio.wait([answers])
                    if self.mode == "after":
                        server_writer.write(data)
                        await server_reader.read(1)  # the server has answered: it is committed
                    elif self.mode == "silent":
                        await reader.read()  # until the client gives up
                    return
                server_writer.write(data)
        except ConnectionError:
            pass
        finally:
            answers.cancel()
            writer.close()
            server_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


@pytest.mark.parametrize("mode", ["before", "after", "silent"])
async def test_a_connection_lost_during_the_commit_is_an_uncertain_outcome(
    postgres: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    if mode == "silent":
        monkeypatch.setattr(module, "COMMAND_TIMEOUT", 1.0)
    async with (
        asyncio.timeout(SOON),
        Cutter(postgres.directory, tmp_path) as cutter,
        open_postgres(url.replace(str(postgres.directory), str(tmp_path))) as store,
    ):
        assert await store.write(lambda tx: add(tx, "a")) == "a"
        cutter.mode = mode
        writes = [asyncio.create_task(store.write(lambda tx, n=n: add(tx, n))) for n in ("b", "c")]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [CommitUncertain] * 2
        cutter.mode = ""
        assert await store.write(lambda tx: add(tx, "d")) == "d", "the writer goes on"
        written = {"b", "c"} if mode == "after" else set()
        assert await names(store) == {"a", "d"} | written


async def test_reads_say_that_the_database_is_away_and_go_on_when_it_is_back(own_postgres: Server) -> None:
    async with open_postgres(own_postgres.database()) as store:
        await store.write(lambda tx: add(tx, "a"))
        async with store.read() as conn:
            await conn.execute(sa.select(workers.c.id))
            await asyncio.to_thread(own_postgres.stop)
            with pytest.raises(StoreUnavailable, match="could not be read"):
                await conn.execute(sa.select(workers.c.id))
        with pytest.raises(StoreUnavailable, match="could not be read"):
            await names(store)
        await asyncio.to_thread(own_postgres.start)
        assert await names(store) == {"a"}
