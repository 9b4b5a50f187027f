"""Agent: its status tells the revision that new runs take."""

from corral.kinds.agent import Agent
from corral.store import Tx
from corral.store.objects import Stored
from corral.verbs.services import Caller, Services


async def create(services: Services, caller: Caller, tx: Tx, new: Stored, asked: Agent) -> Stored:
    """Revision 1."""
    new.status = {"revision": 1}
    return new


async def update(services: Services, caller: Caller, tx: Tx, old: Stored, new: Stored, asked: Agent) -> Stored:
    """A changed spec is a new revision; a change of labels or annotations is none."""
    revision = old.generation + (1 if new.spec != old.spec else 0)
    new.status = {**old.status, "revision": revision}
    return new
