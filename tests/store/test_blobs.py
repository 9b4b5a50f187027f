"""Payloads by content, on both databases."""

import hashlib
import json
import os

import pytest
import sqlalchemy as sa

from corral.store import Store, Tx, blobs
from corral.store.schema import blobs as table


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"a" * 10_000, os.urandom(10_000), b"text " * 200_000, os.urandom(600_000)],
    ids=["empty", "tiny", "text", "random", "large text", "large random"],
)
async def test_bytes_come_back_and_are_stored_once(store: Store, data: bytes) -> None:
    async def work(tx: Tx) -> str:
        assert await blobs.put(tx, data) == await blobs.put(tx, data)
        return await blobs.put(tx, data)

    sha = await store.write(work)
    assert sha == hashlib.sha256(data).hexdigest()
    async with store.read() as conn:
        assert await blobs.get(conn, sha) == data
        [row] = (await conn.execute(sa.select(table))).all()
    assert row.size == len(data)
    assert len(row.data) <= len(data), "never larger than it came"
    if data.startswith((b"aaa", b"text")):
        assert row.codec == "zstd" and len(row.data) < len(data) / 20


async def test_many_are_read_at_once_and_missing_ones_left_out(store: Store) -> None:
    payloads = [b"payload %d" % n for n in range(1200)]

    async def work(tx: Tx) -> list[str]:
        return [await blobs.put(tx, data) for data in payloads]

    shas = await store.write(work)
    async with store.read() as conn:
        assert await blobs.get_many(conn, [*shas, "0" * 64]) == dict(zip(shas, payloads, strict=True))
        assert await blobs.get(conn, "0" * 64) is None


@pytest.mark.parametrize(
    "value",
    [None, 0, "", {"a": [1.5, True, None]}, "nul \x00 emoji 😀 half \ud83d", {"long": "x\x00😀" * 1000}, ["x" * 254]],
)
async def test_values_come_back_by_reference(store: Store, value: object) -> None:
    reference = await store.write(lambda tx: blobs.keep(tx, value))
    small = len(json.dumps(value, separators=(",", ":"))) <= blobs.INLINE
    assert reference.startswith("j:" if small else "b:")
    assert reference.isascii() and "\x00" not in reference
    async with store.read() as conn:
        assert await blobs.load(conn, [reference, reference]) == {reference: value}


async def test_a_value_whose_blob_is_gone_is_left_out(store: Store) -> None:
    kept = await store.write(lambda tx: blobs.keep(tx, "x" * 1000))
    small = await store.write(lambda tx: blobs.keep(tx, 1))
    await store.write(lambda tx: tx.execute(sa.delete(table)))
    async with store.read() as conn:
        assert await blobs.load(conn, [kept, small]) == {small: 1}


async def test_what_is_not_json_is_refused(store: Store) -> None:
    with pytest.raises(TypeError):
        await store.write(lambda tx: blobs.keep(tx, object()))
