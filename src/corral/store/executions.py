"""Executions: the rows that runs are while nothing works on them, and every transition between their states.

    ready -> running -> waiting -> ready ...          running -> succeeded | failed
    ready | running | waiting -> cancelling -> cancelled

A claim adds one to `epoch`. Whoever claimed writes only through `fenced`, which touches the row only while that epoch
still owns it: a worker that was paused and comes back changes nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ._base import Tx
from .schema import executions, ledger, messages, objects, steps, workers

TERMINAL = ("succeeded", "failed", "cancelled")
WAITING_FOR_MESSAGE = "WaitingForMessage"


@dataclass(frozen=True)
class Row:
    """An execution as it is stored. Moments in ms since 1970, money in nano-USD."""

    id: str
    program: str
    input: str
    state: str
    reason: str
    message: str
    owner: str | None
    epoch: int
    deadline: int | None
    cap: int | None
    spent: int
    reserved: int
    created: int
    ended: int | None


_STAMP = (
    sa.update(steps)
    .where(steps.c.execution == sa.bindparam("of"), steps.c.key == sa.bindparam("step"))
    .values(version=sa.bindparam("version"))
)
_COLUMNS = [executions.c[name] for name in Row.__dataclass_fields__]


def _rows(result: sa.CursorResult[Any]) -> list[Row]:
    return [Row(**row._mapping) for row in result.fetchall()]


async def get(conn: AsyncConnection, execution: str) -> Row | None:
    """The execution, or None."""
    rows = _rows(await conn.execute(sa.select(*_COLUMNS).where(executions.c.id == execution)))
    return rows[0] if rows else None


async def lock(tx: Tx, execution: str) -> Row | None:
    """The execution, held for this transaction."""
    rows = _rows(await tx.execute(sa.select(*_COLUMNS).where(executions.c.id == execution).with_for_update()))
    return rows[0] if rows else None


async def submit(tx: Tx, execution: str, program: str, input: str, *, cap: int | None, deadline: int | None) -> None:
    """A new execution, ready to be claimed."""
    await tx.execute(
        sa.insert(executions).values(
            id=execution,
            program=program,
            input=input,
            state="ready",
            seq=time.time_ns(),
            cap=cap,
            deadline=deadline,
            created=tx.now,
        )
    )


async def claim(tx: Tx, worker: str, limit: int, since: int = 0) -> list[Row]:
    """Take up to `limit` ready executions for the worker, oldest first, submitted from `since` (ns since 1970) on."""
    oldest = sa.select(executions.c.id).where(executions.c.state == "ready", executions.c.seq >= since)
    oldest = oldest.order_by(executions.c.seq).limit(limit).with_for_update(skip_locked=True)
    taken = (
        sa.update(executions)
        .where(executions.c.id.in_(oldest), executions.c.state == "ready")
        .values(state="running", owner=worker, epoch=executions.c.epoch + 1, reason="", message="")
        .returning(*_COLUMNS)
    )
    return sorted(_rows(await tx.execute(taken)), key=lambda row: row.created)


async def fenced(tx: Tx, execution: str, epoch: int, **values: object) -> Row | None:
    """Change the row if the epoch still owns it (and lock it for this transaction); None if it does not."""
    statement = (
        sa.update(executions)
        .where(executions.c.id == execution, executions.c.epoch == epoch, executions.c.state == "running")
        .values(**(values or {"epoch": executions.c.epoch}))
        .returning(*_COLUMNS)
    )
    rows = _rows(await tx.execute(statement))
    return rows[0] if rows else None


async def reserve(tx: Tx, execution: str, epoch: int, amount: int) -> Row | None:
    """Hold `amount` nano-USD if it fits under the cap; None if it does not, or the epoch does not own the row."""
    taken = executions.c.spent + executions.c.reserved + amount
    statement = (
        sa.update(executions)
        .where(executions.c.id == execution, executions.c.epoch == epoch, executions.c.state == "running")
        .where(sa.or_(executions.c.cap.is_(None), taken <= executions.c.cap))
        .values(reserved=executions.c.reserved + amount)
        .returning(*_COLUMNS)
    )
    rows = _rows(await tx.execute(statement))
    return rows[0] if rows else None


async def settle(tx: Tx, execution: str, epoch: int, held: int, cost: int) -> Row | None:
    """Turn what was held into what it cost, in the row only; None if the epoch does not own the row."""
    if not held and not cost:
        return await fenced(tx, execution, epoch)
    return await fenced(tx, execution, epoch, reserved=executions.c.reserved - held, spent=executions.c.spent + cost)


async def park(tx: Tx, execution: str, epoch: int, reason: str, message: str) -> Row | None:
    """Put a running execution to wait. One that waits for a message is ready again at once if one has come."""
    row = await fenced(tx, execution, epoch, state="waiting", owner=None, reason=reason, message=message)
    if row is None or reason != WAITING_FOR_MESSAGE:
        return row
    return await _wake(tx, execution, unread=True) or row


async def wake(tx: Tx, execution: str) -> Row | None:
    """Make an execution ready that waits for a message; None if it does not."""
    return await _wake(tx, execution, unread=False)


async def _wake(tx: Tx, execution: str, *, unread: bool) -> Row | None:
    statement = sa.update(executions).where(
        executions.c.id == execution, executions.c.state == "waiting", executions.c.reason == WAITING_FOR_MESSAGE
    )
    if unread:
        waiting = sa.select(messages.c.key).where(messages.c.execution == execution, messages.c.consumed_by.is_(None))
        statement = statement.where(waiting.exists())
    rows = _rows(await tx.execute(statement.values(state="ready").returning(*_COLUMNS)))
    return rows[0] if rows else None


async def release_claim(tx: Tx, execution: str, epoch: int) -> None:
    """Give a claimed execution back, for the next worker: what a worker does when it shuts down."""
    await fenced(tx, execution, epoch, state="ready", owner=None)


async def end(tx: Tx, execution: str, epoch: int, state: str, reason: str, message: str) -> Row | None:
    """The end of a running execution; what is still reserved is charged, since what it cost is not known."""
    row = await fenced(tx, execution, epoch, state=state, reason=reason, message=message, owner=None, ended=tx.now)
    return row and await _close(tx, row)


async def expire(tx: Tx, execution: str, reason: str, message: str) -> Row | None:
    """Fail an execution whose deadline has passed, in whatever unfinished state it is but `cancelling`."""
    statement = (
        sa.update(executions)
        .where(
            executions.c.id == execution,
            executions.c.deadline <= tx.now,
            executions.c.state.in_(("ready", "running", "waiting")),
        )
        .values(state="failed", reason=reason, message=message, ended=tx.now)
        .returning(*_COLUMNS)
    )
    rows = _rows(await tx.execute(statement))
    return await _close(tx, rows[0]) if rows else None


async def request_cancel(tx: Tx, execution: str) -> Row | None:
    """Fence every later write of the execution; None if it has ended or is being cancelled."""
    statement = (
        sa.update(executions)
        .where(executions.c.id == execution, executions.c.state.in_(("ready", "running", "waiting")))
        .values(state="cancelling", reason="", message="")
        .returning(*_COLUMNS)
    )
    rows = _rows(await tx.execute(statement))
    return rows[0] if rows else None


async def finish_cancel(tx: Tx, execution: str) -> Row | None:
    """The end of a cancelled execution, once what it held outside is gone."""
    statement = (
        sa.update(executions)
        .where(executions.c.id == execution, executions.c.state == "cancelling")
        .values(state="cancelled", owner=None, ended=tx.now, released=1)
        .returning(*_COLUMNS)
    )
    rows = _rows(await tx.execute(statement))
    return await _close(tx, rows[0]) if rows else None


async def released(tx: Tx, execution: str) -> None:
    """Note that what an ended execution held outside is gone."""
    await tx.execute(sa.update(executions).where(executions.c.id == execution).values(released=1))


async def held(conn: AsyncConnection, worker: str, limit: int = 100) -> list[Row]:
    """Executions that hold something still: ended ones, and ones to be cancelled that no other live worker has."""
    others = sa.select(workers.c.id).where(workers.c.id != worker)
    statement = (
        sa.select(*_COLUMNS)
        .where(
            executions.c.released == 0,
            sa.or_(
                executions.c.state.in_(TERMINAL),
                sa.and_(
                    executions.c.state == "cancelling",
                    sa.or_(executions.c.owner.is_(None), executions.c.owner.not_in(others)),
                ),
            ),
        )
        .order_by(executions.c.seq)
        .limit(limit)
    )
    return _rows(await conn.execute(statement))


async def overdue(conn: AsyncConnection, now: int, limit: int = 100) -> list[str]:
    """Ids of unfinished executions whose deadline has passed."""
    statement = (
        sa.select(executions.c.id)
        .where(
            executions.c.ended.is_(None),
            executions.c.deadline <= now,
            executions.c.state.in_(("ready", "running", "waiting")),
        )
        .limit(limit)
    )
    return [row.id for row in await conn.execute(statement)]


async def unfinished(conn: AsyncConnection, program: str) -> list[str]:
    """Ids of all executions of the program that have not ended."""
    statement = sa.select(executions.c.id).where(executions.c.program == program, executions.c.state.not_in(TERMINAL))
    return [row.id for row in await conn.execute(statement)]


async def orphans(conn: AsyncConnection, program: str, limit: int = 100) -> list[str]:
    """Ids of ended executions of the program that hold nothing and whose object is deleted."""
    statement = (
        sa.select(executions.c.id)
        .where(executions.c.program == program, executions.c.state.in_(TERMINAL), executions.c.released == 1)
        .where(~sa.select(objects.c.uid).where(objects.c.uid == executions.c.id).exists())
        .limit(limit)
    )
    return [row.id for row in await conn.execute(statement)]


async def claimed(conn: AsyncConnection, worker: str) -> list[tuple[str, int]]:
    """The (id, epoch) claims that the worker holds."""
    statement = sa.select(executions.c.id, executions.c.epoch).where(
        executions.c.state == "running", executions.c.owner == worker
    )
    return [(row.id, row.epoch) for row in await conn.execute(statement)]


async def lost(conn: AsyncConnection, claims: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Of these (id, epoch) claims, those that do not own their execution any more."""
    ids = [execution for execution, _ in claims]
    statement = sa.select(executions.c.id, executions.c.epoch).where(
        executions.c.id.in_(ids), executions.c.state == "running"
    )
    owned = {(row.id, row.epoch) for row in await conn.execute(statement)}
    return [claim for claim in claims if claim not in owned]


async def beat(tx: Tx, worker: str, ttl: int) -> None:
    """Say that the worker lives, for `ttl` ms."""
    renewed = await tx.execute(sa.update(workers).where(workers.c.id == worker).values(until=tx.now + ttl))
    if renewed.rowcount == 0:
        await tx.execute(sa.insert(workers).values(id=worker, until=tx.now + ttl))


async def take_over(tx: Tx) -> int:
    """Make executions ready whose worker is dead or gone; how many. Both happen in the transaction that forgets it."""
    await tx.execute(sa.delete(workers).where(workers.c.until < tx.now))
    orphaned = (
        sa.update(executions)
        .where(executions.c.state == "running", executions.c.owner.not_in(sa.select(workers.c.id)))
        .values(state="ready", owner=None)
    )
    return (await tx.execute(orphaned)).rowcount


async def leave(tx: Tx, worker: str) -> None:
    """The worker is gone of its own will."""
    await tx.execute(sa.delete(workers).where(workers.c.id == worker))


async def forget(tx: Tx, execution: str) -> None:
    """Delete an ended execution with its journal, inbox and ledger."""
    for table in (steps, messages, ledger):
        await tx.execute(sa.delete(table).where(table.c.execution == execution))
    await tx.execute(sa.delete(executions).where(executions.c.id == execution, executions.c.state.in_(TERMINAL)))


async def _close(tx: Tx, row: Row) -> Row:
    """Settle the steps that an ended execution leaves behind, each at its reservation."""
    closed = (
        await tx.execute(
            sa.update(steps)
            .where(steps.c.execution == row.id, steps.c.state == "Started")
            .values(state="Cancelled", ended=tx.now, cost=steps.c.cost + steps.c.reserved, reserved=0)
            .returning(steps.c.key)
        )
    ).fetchall()
    for step in closed:
        stamp_step(tx, row.id, step.key)
    if row.reserved:
        await _settle_open(tx, row.id)
    charged = (
        sa.update(executions)
        .where(executions.c.id == row.id)
        .values(spent=executions.c.spent + executions.c.reserved, reserved=0)
        .returning(*_COLUMNS)
    )
    return _rows(await tx.execute(charged))[0]


async def _settle_open(tx: Tx, execution: str) -> None:
    settled = sa.select(ledger.c.step, ledger.c.attempt).where(
        ledger.c.execution == execution, ledger.c.entry == "settle"
    )
    done = {(row.step, row.attempt) for row in await tx.execute(settled)}
    reserved = await tx.execute(sa.select(ledger).where(ledger.c.execution == execution, ledger.c.entry == "reserve"))
    for row in reserved.fetchall():
        if (row.step, row.attempt) not in done:
            await book(tx, execution, row.step, row.attempt, "settle", row.amount)


async def book(tx: Tx, execution: str, step: str, attempt: int, entry: str, amount: int) -> None:
    """A line of the ledger."""
    await tx.execute(
        sa.insert(ledger).values(execution=execution, step=step, attempt=attempt, entry=entry, amount=amount, at=tx.now)
    )


def stamp_step(tx: Tx, execution: str, key: str) -> None:
    """Give a changed step the version of this transaction, so that followers see it."""

    async def stamp(version: int) -> None:
        tx.defer(_STAMP, {"of": execution, "step": key, "version": version})

    tx.stamp(stamp)
