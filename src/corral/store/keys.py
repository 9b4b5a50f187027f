"""Which APIKey a key belongs to. Only the SHA-256 of a key is here.

A plain hash is right for keys, unlike for passwords: a key has 256 random bits, so there is nothing to guess that a
slow hash would make dearer, and the time of a lookup by the hash tells nothing about the key.
"""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from . import objects
from ._base import Tx
from .objects import Stored
from .schema import keys


async def put(tx: Tx, digest: str, uid: str) -> None:
    """Lets the key with that SHA-256 speak for the APIKey with the uid."""
    await tx.execute(sa.insert(keys), {"digest": digest, "uid": uid, "created": tx.now})


async def find(conn: AsyncConnection, digest: str) -> Stored | None:
    """The APIKey of the key, or None."""
    uid = (await conn.execute(sa.select(keys.c.uid).where(keys.c.digest == digest))).scalar()
    return None if uid is None else await objects.get_uid(conn, uid)


async def forget(tx: Tx, uid: str) -> None:
    """The key of that APIKey opens nothing any more."""
    await tx.execute(sa.delete(keys).where(keys.c.uid == uid))
