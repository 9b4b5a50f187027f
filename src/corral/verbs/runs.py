"""What only runs have: their answer, their recorded steps, and messages to them."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import anyio

from corral.base import clock, ids, money
from corral.durable import inbox
from corral.kinds import Problem, Reason
from corral.kinds.agentrun import FINISHED, AgentRun, MessageRequest
from corral.store import Tx, blobs, journal, objects, position
from corral.store.journal import Step
from corral.store.objects import Stored

from . import access
from .objects import document, get, missing
from .services import Caller, Services

ANSWER_WAIT = 20.0
"""Seconds that a request for the answer of a working run is held."""


async def answer(services: Services, caller: Caller, namespace: str, name: str, *, wait: float = ANSWER_WAIT) -> bytes:
    """The full text of the latest answer, held while a turn is pending. Raises Problem NotFound, Unavailable."""
    with anyio.move_on_after(wait):
        while not services.store.closing:
            seen = services.store.version()
            stored = await get(services, caller, AgentRun, namespace, name)
            if not await _pending(services, stored):
                return await _answer(services, stored)
            await services.store.wait(seen, wait)
    fix = "Ask again; `corral wait` waits for the end of the run."
    message = f"the run {name!r} is still working"
    raise Problem(Reason.Unavailable, message, fix=fix, details={"retryAfterSeconds": 1})


async def steps(services: Services, caller: Caller, namespace: str, name: str, *, after: int = -1) -> dict[str, Any]:
    """What the run did, in order: `items`, and the `version` to ask on from."""
    stored = await get(services, caller, AgentRun, namespace, name)
    async with services.store.read() as conn:
        version = await position(conn)
        recorded = await journal.load(conn, stored.uid, after=after, outputs=False)
        sizes = await journal.output_sizes(conn, stored.uid)
    return {"items": [_wire(step, sizes.get(step.key, 0)) for step in recorded], "version": version}


async def follow(
    services: Services, caller: Caller, namespace: str, name: str, *, after: int = -1
) -> AsyncIterator[dict[str, Any]]:
    """Each change of the run's steps and of the run, from the beginning or after a version, until it has ended."""
    stored = await get(services, caller, AgentRun, namespace, name)
    shown = -1
    while not services.store.closing:
        seen = services.store.version()
        async with services.store.read() as conn:
            if not await access.holds(conn, caller):
                return
            current = await objects.get_uid(conn, stored.uid)
            recorded = await journal.load(conn, stored.uid, after=after, outputs=False)
            sizes = await journal.output_sizes(conn, stored.uid) if recorded else {}
        for step in recorded:
            yield {"type": "step", "version": step.version, "step": _wire(step, sizes.get(step.key, 0))}
        after = max([after, *(step.version for step in recorded)])
        if current is None:
            return
        if current.version != shown:
            shown = current.version
            yield {"type": "run", "version": max(after, shown), "object": document(current)}
        if current.status["phase"] in FINISHED:
            return
        await services.store.wait(seen, 15.0)


async def send(
    services: Services, caller: Caller, namespace: str, name: str, message: MessageRequest, repeated: str = ""
) -> dict[str, Any]:
    """Deliver a message once for its key: `seq` and `messageKey`. Raises Problem AgentRunFinished.

    A message without a key gets one: from `repeated`, the request's Idempotency-Key, so that a request that is sent
    again delivers nothing more, else a new one.
    """
    access.check(caller, AgentRun, "write", namespace)
    same = ids.digest(f"{caller.principal}/{repeated}".encode("utf-8", "replace"))[:10] if repeated else ""
    key = message.message_key or f"msg-{same or ids.new_suffix(10)}"

    async def work(tx: Tx) -> inbox.Receipt:
        stored = await objects.get(tx.conn, AgentRun.__name__, namespace, name)
        if stored is None or not access.sees(caller, stored):
            raise missing(AgentRun, namespace, name)
        try:
            receipt = await inbox.send(tx, stored.uid, key, message.payload)
        except inbox.Finished:
            text = f"the run {name!r} has finished and takes no more messages"
            raise Problem(Reason.AgentRunFinished, text, fix="Create a new run.") from None
        if receipt.woken is not None:
            waking = {**stored.status, "phase": "Queued", "reason": "", "message": ""}
            await objects.update(tx, stored, status=waking)
        return receipt

    receipt = await services.store.write(work)
    return {"seq": receipt.seq, "messageKey": receipt.key}


async def _pending(services: Services, stored: Stored) -> bool:
    """Whether an answer is still to come without anybody doing anything."""
    phase, reason = stored.status["phase"], stored.status.get("reason")
    if phase != "Waiting":
        return phase not in FINISHED
    if reason != "WaitingForMessage":
        return False
    async with services.store.read() as conn:
        return await journal.unread(conn, stored.uid) > 0


async def _answer(services: Services, stored: Stored) -> bytes:
    known = stored.status.get("answer")
    if not known:
        phase = stored.status["phase"]
        why = f"{stored.status.get('reason')} {stored.status.get('message')}".strip()
        raise Problem(Reason.NotFound, f"the run {stored.name!r} has no answer: it is {phase} ({why})")
    async with services.store.read() as conn:
        text = await blobs.get(conn, known["sha256"])
    if text is None:
        raise Problem(
            Reason.NotFound, "the answer's retention has passed; its first 4 KiB are in status.answer.preview"
        )
    return text


def _wire(step: Step, size: int) -> dict[str, Any]:
    return {
        "id": step.place,
        "key": step.key,
        "name": step.name,
        "occurrence": step.attempt,
        "effect": step.effect,
        "outcome": step.state,
        "attempt": step.attempt,
        "startTime": _moment(step.started),
        "completionTime": _moment(step.ended),
        "costUSD": money.usd(step.cost),
        "resultSize": size,
        "detail": step.detail,
    }


def _moment(ms: int | None) -> str | None:
    return None if ms is None else clock.rfc3339(datetime.fromtimestamp(ms / 1000, UTC))
