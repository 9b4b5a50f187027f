"""Events: lines of an object's history, written in the transaction of what they tell."""

from corral.base import clock, ids
from corral.kinds import CREATED_BY

from . import objects
from ._base import Tx
from .objects import Stored


async def note(tx: Tx, about: Stored, reason: str, message: str, *, warning: bool = False) -> None:
    """Add a line: `reason` is one word for programs, `message` a sentence for people."""
    involved = {"kind": about.kind, "name": about.name, "namespace": about.namespace, "uid": about.uid}
    spec = {
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message,
        "lastTime": clock.rfc3339(clock.now()),
        "involvedObject": involved,
    }
    name = f"{about.name[:200]}.{ids.new_suffix(10)}"
    # Who made the object may read of it, also where users see only their own.
    labels = {CREATED_BY: about.metadata.get("labels", {}).get(CREATED_BY, "")}
    await objects.create(tx, Stored(ids.new_uid(), "Event", "", name, metadata={"labels": labels}, spec=spec))
