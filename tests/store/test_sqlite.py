"""What is SQLite's own: the file, its lock, its settings."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from corral.store import Store, StoreInUse, StoreUnavailable, Tx, _writer, sqlite
from corral.store.schema import blobs, workers
from corral.store.sqlite import open_sqlite

HOLDER = """
import asyncio, sys
from corral.store.sqlite import open_sqlite

async def main():
    async with open_sqlite(sys.argv[1]):
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def add(tx: Tx, name: str) -> str:
    await tx.execute(sa.insert(workers), {"id": name, "until": 0})
    return name


async def pragma(store: Store, name: str) -> object:
    async def work(tx: Tx) -> object:
        return (await tx.execute(sa.text(f"PRAGMA {name}"))).scalar_one()

    return await store.write(work)


def test_an_unknown_durability_is_refused() -> None:
    with pytest.raises(ValueError, match="'OFF'; it must be FULL or NORMAL"):
        open_sqlite("x.db", synchronous="OFF")  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "number"), [("FULL", 2), ("NORMAL", 1)])
async def test_settings(tmp_path: Path, mode: str, number: int) -> None:
    async with open_sqlite(tmp_path / "a.db", synchronous=mode) as store:  # type: ignore[arg-type]
        assert await pragma(store, "synchronous") == number
        assert await pragma(store, "journal_mode") == "wal"
        assert await pragma(store, "foreign_keys") == 1
        assert await pragma(store, "auto_vacuum") == 2


async def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with open_sqlite(tmp_path / "home" / "a.db") as store:
            await store.write(lambda tx: add(tx, "a"))
            found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "home").iterdir()}
    finally:
        os.umask(before)
    assert found == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm", "a.db.lock"), 0o600)
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


async def test_a_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    path.chmod(0o644)
    async with open_sqlite(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_second_opener_is_refused_with_the_holders_pid(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, path, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"open\n"
        with pytest.raises(StoreInUse, match=f"in use by process {holder.pid}; stop it") as caught:
            await open_sqlite(path).start()
        assert caught.value.pid == holder.pid
    finally:
        holder.kill()
        await holder.communicate()
    async with open_sqlite(path) as store:
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
            await open_sqlite(path).start()
        assert await store.write(lambda tx: add(tx, "a")) == "a", "the refused opener harmed nothing"


async def test_a_lock_held_by_a_foreign_program_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 1)
    monkeypatch.setattr(_writer, "BACKOFF", (0.01,) * 1000)
    async with open_sqlite(tmp_path / "a.db") as store:
        foreign = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        writes = [asyncio.create_task(store.write(lambda tx, n=n: add(tx, f"w{n}"))) for n in range(3)]
        done, _ = await asyncio.wait(writes, timeout=0.2)
        assert not done
        foreign.execute("ROLLBACK")
        foreign.close()
        assert await asyncio.wait_for(asyncio.gather(*writes), 20) == ["w0", "w1", "w2"]


async def test_a_lock_that_stays_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 1)
    monkeypatch.setattr(_writer, "BACKOFF", (0.01, 0.01))
    async with open_sqlite(tmp_path / "a.db") as store:
        foreign = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="database is locked"):
            await store.write(lambda tx: add(tx, "never"))
        foreign.close()
        assert await store.write(lambda tx: add(tx, "a")) == "a"


async def test_readers_cannot_write(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "a.db") as store, store.read() as conn:
        with pytest.raises(sa.exc.OperationalError, match="readonly"):
            await conn.execute(sa.insert(workers), {"id": "never", "until": 0})


async def test_a_long_read_holds_up_no_write(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "a.db") as store, store.read() as conn:
        count = sa.select(sa.func.count()).select_from(workers)
        assert (await conn.execute(count)).scalar_one() == 0
        await asyncio.wait_for(store.write(lambda tx: add(tx, "a")), 5)
        assert (await conn.execute(count)).scalar_one() == 0


async def test_space_of_deleted_rows_can_be_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    row = {"size": 1, "codec": "raw", "data": os.urandom(100_000), "created": 0}
    async with open_sqlite(path) as store:
        for n in range(20):
            await store.write(lambda tx, n=n: tx.execute(sa.insert(blobs), row | {"sha256": str(n)}))
        await store.write(lambda tx: tx.execute(sa.delete(blobs)))
        assert int(str(await pragma(store, "freelist_count"))) > 400
        while await store.reclaim():
            pass
        assert await pragma(store, "freelist_count") == 0
    assert path.stat().st_size < 400_000


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_text("my notes " * 1000)
    with pytest.raises(sa.exc.DatabaseError, match="not a database"):
        await open_sqlite(path).start()
    assert path.read_text() == "my notes " * 1000
