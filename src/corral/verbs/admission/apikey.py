"""APIKey: makes the key, keeps its hash, and shows it once. No key can make one that allows more than itself."""

from corral.base import ids
from corral.kinds.apikey import APIKey
from corral.store import Tx, keys
from corral.store.objects import Stored
from corral.verbs import access
from corral.verbs.services import Caller, Services


async def create(services: Services, caller: Caller, tx: Tx, new: Stored, asked: APIKey) -> Stored:
    """A new key. Raises Problem Forbidden."""
    access.check_within(caller, asked.spec)
    key = ids.new_key()
    await keys.put(tx, ids.digest(key.encode()), new.uid)
    new.status = {"user": {"id": asked.spec.user or caller.user, "email": ""}, "createdBy": caller.user}
    new.disclosed = {"key": key}
    return new


async def update(services: Services, caller: Caller, tx: Tx, old: Stored, new: Stored, asked: APIKey) -> Stored:
    """Other limits, from the next request on. Raises Problem Forbidden."""
    access.check_within(caller, asked.spec)
    return new


async def delete(services: Services, caller: Caller, tx: Tx, old: Stored) -> None:
    """The key opens nothing any more."""
    await keys.forget(tx, old.uid)
