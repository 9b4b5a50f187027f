"""SSHKey: belongs to the user who adds it."""

from corral.kinds.sshkey import SSHKey, fingerprint
from corral.store import Tx
from corral.store.objects import Stored
from corral.verbs.services import Caller, Services


async def create(services: Services, caller: Caller, tx: Tx, new: Stored, asked: SSHKey) -> Stored:
    """The key with its fingerprint and owner."""
    new.status = {"fingerprint": fingerprint(asked.spec.public_key), "user": {"id": caller.user, "email": ""}}
    return new
