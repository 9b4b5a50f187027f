"""The journal: recorded steps and the inbox of an execution. Every write is fenced by the caller's epoch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from . import blobs
from ._base import Tx
from .executions import book, stamp_step
from .schema import blobs as stored
from .schema import messages, steps

PENDING = -1
"""The version of a row until its transaction stamps it."""


@dataclass
class Step:
    """A recorded step. `output` is decoded JSON; `detail` is what people are shown; money in nano-USD."""

    key: str
    place: int
    name: str
    effect: str
    state: str
    epoch: int
    attempt: int
    detail: dict[str, Any]
    output: Any = None
    reserved: int = 0
    cost: int = 0
    started: int = 0
    ended: int | None = None
    version: int = PENDING


@dataclass(frozen=True)
class Message:
    """One message of an inbox."""

    key: str
    seq: int
    payload: Any


async def load(
    conn: AsyncConnection, execution: str, *, after: int = -1, outputs: bool = True, limit: int | None = None
) -> list[Step]:
    """The steps with a version over `after`, in order of their first start."""
    statement = (
        sa.select(steps)
        .where(steps.c.execution == execution, steps.c.version > after)
        .order_by(steps.c.place)
        .limit(limit)
    )
    rows = (await conn.execute(statement)).fetchall()
    values = await blobs.load(conn, {row.output for row in rows if row.output}) if outputs else {}
    return [
        Step(
            key=row.key,
            place=row.place,
            name=row.name,
            effect=row.effect,
            state=row.state,
            epoch=row.epoch,
            attempt=row.attempt,
            detail=json.loads(row.detail),
            output=values.get(row.output),
            reserved=row.reserved,
            cost=row.cost,
            started=row.started,
            ended=row.ended,
            version=row.version,
        )
        for row in rows
    ]


async def output_sizes(conn: AsyncConnection, execution: str) -> dict[str, int]:
    """Bytes of each recorded output, by the step's key."""
    statement = (
        sa.select(steps.c.key, steps.c.output, stored.c.size)
        .join(stored, stored.c.sha256 == sa.func.substr(steps.c.output, len(blobs.STORED) + 1), isouter=True)
        .where(steps.c.execution == execution, steps.c.output.is_not(None))
    )
    rows = (await conn.execute(statement)).fetchall()
    return {row.key: row.size if row.size is not None else len(row.output) - len(blobs.INLINED) for row in rows}


async def begin(tx: Tx, execution: str, step: Step) -> None:
    """Record the intent of a first attempt, or of a further one when `step.attempt` is over 1.

    The caller has fenced the execution in this transaction and reserved `step.reserved` there.
    """
    if step.attempt == 1:
        await tx.execute(sa.insert(steps), _row(tx, execution, step))
    else:
        await tx.execute(
            sa.update(steps)
            .where(steps.c.execution == execution, steps.c.key == step.key)
            .values(
                state="Started",
                epoch=step.epoch,
                attempt=step.attempt,
                detail=_json(step.detail),
                reserved=step.reserved,
                ended=None,
            )
        )
    if step.reserved:
        await book(tx, execution, step.key, step.attempt, "reserve", step.reserved)
    stamp_step(tx, execution, step.key)


async def finish(tx: Tx, execution: str, step: Step, cost: int) -> None:
    """Record the result of the running attempt; `cost` is what it cost. The caller has fenced and settled."""
    await tx.execute(
        sa.update(steps)
        .where(steps.c.execution == execution, steps.c.key == step.key)
        .values(
            state=step.state,
            detail=_json(step.detail),
            output=await blobs.keep(tx, step.output) if step.output is not None else None,
            cost=steps.c.cost + cost,
            reserved=0,
            ended=tx.now,
        )
    )
    if step.reserved or cost:
        await book(tx, execution, step.key, step.attempt, "settle", cost)
    stamp_step(tx, execution, step.key)


async def record(tx: Tx, execution: str, step: Step) -> None:
    """Record a step that is intent and result in one. The caller has fenced."""
    row = _row(tx, execution, step) | {"output": await blobs.keep(tx, step.output), "ended": tx.now}
    await tx.execute(sa.insert(steps), row)
    stamp_step(tx, execution, step.key)


def _row(tx: Tx, execution: str, step: Step) -> dict[str, Any]:
    return {
        "execution": execution,
        "key": step.key,
        "place": step.place,
        "name": step.name,
        "effect": step.effect,
        "state": step.state,
        "epoch": step.epoch,
        "attempt": step.attempt,
        "detail": _json(step.detail),
        "reserved": step.reserved,
        "started": tx.now,
        "version": PENDING,
    }


async def append_message(tx: Tx, execution: str, key: str, payload: Any) -> tuple[int, bool]:
    """Add to the inbox, once for a key: (sequence number, whether it is new)."""
    known = sa.select(messages.c.seq).where(messages.c.execution == execution, messages.c.key == key)
    if (seq := (await tx.execute(known)).scalar()) is not None:
        return int(seq), False
    last = sa.select(sa.func.coalesce(sa.func.max(messages.c.seq), 0)).where(messages.c.execution == execution)
    seq = int((await tx.execute(last)).scalar_one()) + 1
    await tx.execute(
        sa.insert(messages).values(
            execution=execution, key=key, seq=seq, payload=await blobs.keep(tx, payload), created=tx.now
        )
    )
    return seq, True


async def next_message(tx: Tx, execution: str) -> Message | None:
    """The oldest unread message."""
    statement = (
        sa.select(messages)
        .where(messages.c.execution == execution, messages.c.consumed_by.is_(None))
        .order_by(messages.c.seq)
        .limit(1)
    )
    row = (await tx.execute(statement)).first()
    if row is None:
        return None
    payload = (await blobs.load(tx.conn, [row.payload]))[row.payload]
    return Message(row.key, row.seq, payload)


async def consume(tx: Tx, execution: str, message: Message, step_key: str) -> None:
    """Mark a message as read by a step, in the transaction that records the step."""
    await tx.execute(
        sa.update(messages)
        .where(messages.c.execution == execution, messages.c.key == message.key)
        .values(consumed_by=step_key)
    )


async def unread(conn: AsyncConnection, execution: str) -> int:
    """How many messages wait."""
    statement = sa.select(sa.func.count()).where(messages.c.execution == execution, messages.c.consumed_by.is_(None))
    return int((await conn.execute(statement)).scalar_one())


def _json(detail: Mapping[str, Any]) -> str:
    return json.dumps(detail, separators=(",", ":"))
