"""Payloads by their content: what many steps share is stored once, compressed when that makes it smaller.

A JSON value is kept as a *reference*, a short text: `j:` and the JSON itself up to `INLINE` bytes, else `b:` and the
SHA-256 of the JSON as a blob.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import anyio.to_thread
import sqlalchemy as sa
import zstandard
from sqlalchemy.ext.asyncio import AsyncConnection

from corral.base.ids import digest

from ._base import Tx
from ._json import dumps, loads
from ._upsert import insert_new
from .schema import blobs

INLINED = "j:"
"""Begins a reference that holds the JSON text itself."""
STORED = "b:"
"""Begins a reference that holds the SHA-256 of a blob."""
INLINE = 256
"""Bytes up to which a JSON value is its own reference."""
SMALL = 128
"""Bytes below which compressing is not tried."""
LARGE = 256 << 10
"""Bytes from which (de)compressing goes to a thread, so that the event loop does not stop for it."""
_CHUNK = 500

_INSERT = insert_new(blobs)


async def put(tx: Tx, data: bytes) -> str:
    """Stores the bytes, if they are not there yet. The answer is their SHA-256 as hex."""
    sha, packed = await (anyio.to_thread.run_sync(_pack, data) if len(data) >= LARGE else _packed(data))
    codec, body = ("zstd", packed) if len(packed) < len(data) else ("raw", data)
    row = {"sha256": sha, "size": len(data), "codec": codec, "data": body, "created": tx.now}
    await tx.execute(_INSERT, row)
    return sha


async def get(conn: AsyncConnection, sha: str) -> bytes | None:
    """The bytes with that SHA-256, or None."""
    return (await get_many(conn, [sha])).get(sha)


async def get_many(conn: AsyncConnection, shas: Iterable[str]) -> dict[str, bytes]:
    """The bytes by SHA-256; those that are not stored are left out."""
    wanted = list(dict.fromkeys(shas))
    found: dict[str, bytes] = {}
    for start in range(0, len(wanted), _CHUNK):
        statement = sa.select(blobs.c.sha256, blobs.c.size, blobs.c.codec, blobs.c.data).where(
            blobs.c.sha256.in_(wanted[start : start + _CHUNK])
        )
        rows = (await conn.execute(statement)).fetchall()
        if sum(row.size for row in rows) >= LARGE:
            found |= await anyio.to_thread.run_sync(_unpack, rows)
        else:
            found |= _unpack(rows)
    return found


async def keep(tx: Tx, value: Any) -> str:
    """Stores a JSON value; the answer is its reference. Raises ValueError or TypeError for what is not JSON."""
    text = dumps(value)
    if len(text) <= INLINE:
        return f"{INLINED}{text}"
    return f"{STORED}{await put(tx, text.encode())}"


async def load(conn: AsyncConnection, refs: Iterable[str]) -> dict[str, Any]:
    """The values by reference. Those whose blob is gone (retention) are left out."""
    refs = set(refs)
    values = {ref: loads(ref.removeprefix(INLINED)) for ref in refs if ref.startswith(INLINED)}
    stored = await get_many(conn, [ref.removeprefix(STORED) for ref in refs if ref.startswith(STORED)])
    return values | {STORED + sha: loads(data.decode()) for sha, data in stored.items()}


async def _packed(data: bytes) -> tuple[str, bytes]:
    return _pack(data)


def _pack(data: bytes) -> tuple[str, bytes]:
    return digest(data), zstandard.ZstdCompressor().compress(data) if len(data) >= SMALL else data


def _unpack(rows: Sequence[Any]) -> dict[str, bytes]:
    decompressor = zstandard.ZstdDecompressor()
    return {
        row.sha256: decompressor.decompress(row.data, max_output_size=row.size) if row.codec == "zstd" else row.data
        for row in rows
    }
