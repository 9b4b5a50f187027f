"""Messages to an execution: stored once for a key, and a parked execution wakes in the same transaction."""

from dataclasses import dataclass
from typing import Any

from corral.store import Tx, executions, journal
from corral.store.executions import Row


class Finished(Exception):
    """The execution has ended, or is being cancelled, and reads no more messages."""


@dataclass(frozen=True)
class Receipt:
    """Where a message stands in the inbox."""

    seq: int
    key: str
    woken: Row | None
    """The execution, if the message made it ready."""


async def send(tx: Tx, execution: str, key: str, payload: Any) -> Receipt:
    """Put a message into the inbox. A known key changes nothing. Raises Finished."""
    row = await executions.lock(tx, execution)
    if row is None or row.state in (*executions.TERMINAL, "cancelling"):
        raise Finished(execution)
    seq, new = await journal.append_message(tx, execution, key, payload)
    return Receipt(seq, key, await executions.wake(tx, execution) if new else None)
