"""Watches under bad conditions: connections that drop at random, readers that do not read, positions that are gone."""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.store import changes
from corral.store.sqlite import open_sqlite
from house import PROJECT, House, house


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        yield running


def agent(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Agent", "metadata": {"name": name}, "spec": spec}


async def write(here: House, count: int, rng: random.Random) -> list[tuple[str, str]]:
    """Change agents in `count` ways: what a watch must tell."""
    told: list[tuple[str, str]] = []
    there: set[str] = set()
    for number in range(count):
        name = f"a{rng.randrange(5)}"
        if name not in there:
            await here.post("agents", agent(name))
            there.add(name)
            told.append(("ADDED", name))
        elif rng.random() < 0.3:
            await here.client.delete(f"{PROJECT}/agents/{name}")
            there.discard(name)
            told.append(("DELETED", name))
        else:
            await here.patch(f"agents/{name}", {"spec": {"system": str(number)}})
            told.append(("MODIFIED", name))
    return told


async def watch(here: House, version: str, seed: int, wanted: int) -> list[tuple[str, str]]:
    """Everything from the version on, over connections that are dropped after a random number of events."""
    rng = random.Random(seed)
    heard: list[tuple[str, str]] = []
    while len(heard) < wanted:
        left = rng.randrange(1, 12)
        query = {"watch": "true", "resourceVersion": version}
        async with here.client.stream("GET", f"{PROJECT}/agents", params=query) as stream:
            async for line in stream.aiter_lines():
                event = json.loads(line)
                version = event["object"]["metadata"]["resourceVersion"]
                heard.append((event["type"], event["object"]["metadata"]["name"]))
                left -= 1
                if not left or len(heard) == wanted:
                    break
    return heard


async def version_of(here: House) -> str:
    return str((await here.client.get(f"{PROJECT}/agents")).json()["metadata"]["resourceVersion"])


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000))
async def test_nothing_is_lost_and_nothing_comes_twice(here: House, seed: int) -> None:
    for name in [item["metadata"]["name"] for item in (await here.client.get(f"{PROJECT}/agents")).json()["items"]]:
        await here.client.delete(f"{PROJECT}/agents/{name}")
    version = await version_of(here)
    told: list[tuple[str, str]] = []
    heard: list[tuple[str, str]] = []

    async def writing() -> None:
        told.extend(await write(here, 60, random.Random(seed)))

    async def watching() -> None:
        heard.extend(await watch(here, version, seed + 1, 60))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writing)
            tasks.start_soon(watching)
    assert heard == told


async def test_a_reader_that_does_not_read_holds_nobody_up(here: House) -> None:
    version = await version_of(here)
    await here.post("agents", agent("a"))
    big = "x" * 60_000
    async with here.client.stream("GET", f"{PROJECT}/agents?watch=true&resourceVersion={version}") as stream:
        with anyio.fail_after(60):
            for number in range(150):
                changed = await here.patch("agents/a", {"spec": {"system": f"{number} {big}"}})
                assert changed.status_code == 200
        lines = stream.aiter_lines()
        heard = [json.loads(await anext(lines)) for _ in range(151)]
    assert [event["object"]["metadata"]["generation"] for event in heard] == list(range(1, 152))


async def test_a_position_is_gone_only_if_something_was_really_pruned(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with house(home) as here:
        await here.post("agents", agent("a"))
        old = await version_of(here)
        await here.patch("agents/a", {"spec": {"system": "newer"}})
        newest = await version_of(here)
    async with open_sqlite(home / "corral.db") as store:
        assert await store.write(lambda tx: changes.prune(tx, tx.now + 1))
    async with house(home) as here:
        gone = await here.client.get(f"{PROJECT}/agents", params={"watch": "true", "resourceVersion": old})
        assert (gone.status_code, gone.json()["reason"]) == (410, "Expired")
        # Secrets never changed, and the newest position misses nothing: both go on.
        for plural, version in (("secrets", "1"), ("agents", newest)):
            query = {"watch": "true", "resourceVersion": version}
            async with here.client.stream("GET", f"{PROJECT}/{plural}", params=query) as stream:
                assert stream.status_code == 200
