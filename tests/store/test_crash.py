"""A process that is killed loses no acknowledged write, and leaves the log whole."""

import asyncio
import random
import signal
import subprocess
import sys

import sqlalchemy as sa

from conftest import Place
from corral.store import Store, position
from corral.store.schema import changes, objects

WRITER = """
import asyncio, sys
from corral.store import objects
from corral.store.objects import Stored
from corral.store.postgres import open_postgres
from corral.store.sqlite import open_sqlite

dialect, address, turn = sys.argv[1:]

async def main():
    async with open_sqlite(address) if dialect == "sqlite" else open_postgres(address) as store:
        async def lane(number):
            for n in range(10**9):
                made = Stored.new("Thing", "p", f"{turn}.{number}.{n}", spec={"n": n})
                async def work(tx):
                    await objects.update(tx, await objects.create(tx, made), status={"n": n})
                await store.write(work)
                print(made.uid, flush=True)
        async with asyncio.TaskGroup() as tasks:
            for number in range(20):
                tasks.create_task(lane(number))

asyncio.run(main())
"""


async def killed_while_writing(place: Place, turn: int, after: int) -> list[str]:
    """Runs a writer, kills it once it has acknowledged `after` writes, and answers with all that it acknowledged."""
    arguments = (place.dialect, place.address, str(turn))
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, *arguments, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        async with asyncio.timeout(60):
            lines = [await child.stdout.readline() for _ in range(after)]
    finally:
        child.kill()
    lines += (await child.stdout.read()).splitlines()
    assert await child.wait() == -signal.SIGKILL
    return [line.decode().strip() for line in lines]


async def check_whole(store: Store, acknowledged: list[str]) -> None:
    async with store.read() as conn:
        last = await position(conn)
        stored = {row.uid: row for row in await conn.execute(sa.select(objects))}
        log = (await conn.execute(sa.select(changes).order_by(changes.c.version))).all()
    assert set(acknowledged) <= set(stored)
    assert [change.version for change in log] == list(range(1, last + 1)), "no version is missing or twice"
    assert len(log) == 2 * len(stored), "a work is stored whole or not at all"
    for added, modified in zip(log[::2], log[1::2], strict=True):
        assert (added.type, modified.type, added.uid) == ("ADDED", "MODIFIED", modified.uid)
        assert stored[added.uid].version == modified.version


async def test_acknowledged_writes_outlive_a_killed_process(place: Place) -> None:
    acknowledged: list[str] = []
    for turn in range(3):
        acknowledged += await killed_while_writing(place, turn, random.randint(1, 200))
        async with place.open() as store:
            await check_whole(store, acknowledged)
    assert len(acknowledged) >= 3
