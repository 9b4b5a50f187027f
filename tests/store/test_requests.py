"""Idempotency records, on both databases."""

import asyncio

import pytest

from corral.store import Store, Tx, requests
from corral.store import objects as rows
from corral.store.objects import Stored
from corral.store.requests import Answer, KeyTaken

WHO = ("ann", "POST", "/apis/things", "key-1")


async def test_an_answer_is_found_under_its_whole_key(store: Store) -> None:
    answer = Answer("0" * 64, 201, '{"kind":"Thing 😀"}', 1000)
    await store.write(lambda tx: requests.put(tx, *WHO, answer))
    async with store.read() as conn:
        assert await requests.find(conn, *WHO) == answer
        for place in range(4):
            other = [*WHO]
            other[place] += "x"
            assert await requests.find(conn, *other) is None


async def test_of_concurrent_requests_with_one_key_one_has_an_effect(store: Store) -> None:
    async def request(n: int) -> None:
        async def work(tx: Tx) -> None:
            await rows.create(tx, Stored.new("Thing", "p", f"t{n}"))
            await requests.put(tx, *WHO, Answer("0", 201, "", 1000))

        await store.write(work)

    outcomes = await asyncio.gather(*(request(n) for n in range(10)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome] == [KeyTaken] * 9
    async with store.read() as conn:
        assert len(await rows.listing(conn, "Thing", None)) == 1


async def test_expired_records_go(store: Store) -> None:
    for n in range(3):
        await store.write(lambda tx, n=n: requests.put(tx, *WHO[:3], f"k{n}", Answer("0", 200, "", 100 * n)))
    assert await store.write(lambda tx: requests.expire(tx, 101)) == 2
    async with store.read() as conn:
        assert await requests.find(conn, *WHO[:3], "k1") is None
        assert await requests.find(conn, *WHO[:3], "k2") is not None
    await store.write(lambda tx: requests.put(tx, *WHO[:3], "k1", Answer("1", 200, "", 500)))
    with pytest.raises(KeyTaken):
        await store.write(lambda tx: requests.put(tx, *WHO[:3], "k1", Answer("1", 200, "", 500)))
