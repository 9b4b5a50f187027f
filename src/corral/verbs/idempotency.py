"""Idempotency-Key: a repeated request gets the first answer, and has no second effect."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from corral.base import ids
from corral.kinds import Problem, Reason
from corral.store import Tx, requests
from corral.store.objects import Stored
from corral.store.requests import Answer, KeyTaken

from .services import Services

KEEP_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Key:
    """A client's key, which counts for one caller, method and path."""

    principal: str
    method: str
    path: str
    value: str


async def once(
    services: Services,
    key: Key | None,
    body: bytes,
    work: Callable[[Tx], Awaitable[tuple[int, Stored]]],
    render: Callable[[Stored], dict[str, Any]],
) -> tuple[int, dict[str, Any]]:
    """The answer of `work`, or the one on record for the key. Raises Problem IdempotencyKeyReused for another body."""
    if key is None:
        status, stored = await services.store.write(work)
        return status, render(stored)
    digest = ids.digest(body)
    place = (key.principal, key.method, key.path, key.value)

    async def keyed(tx: Tx) -> tuple[int, Stored]:
        await requests.expire(tx, tx.now)
        status, stored = await work(tx)
        await requests.put(tx, *place, Answer(digest, status, "", tx.now + KEEP_MS))

        async def complete(version: int) -> None:
            await requests.complete(tx, *place, json.dumps(render(stored)))

        tx.stamp(complete)
        return status, stored

    if (known := await _known(services, place, digest)) is not None:
        return known
    try:
        status, stored = await services.store.write(keyed)
    except (KeyTaken, Problem):
        # The same request a moment earlier may be why it was refused; then its answer is the answer.
        if (known := await _known(services, place, digest)) is not None:
            return known
        raise
    return status, render(stored)


async def _known(
    services: Services, place: tuple[str, str, str, str], digest: str
) -> tuple[int, dict[str, Any]] | None:
    async with services.store.read() as conn:
        answer = await requests.find(conn, *place)
    if answer is None or answer.expires < time.time() * 1000:
        return None
    if answer.body_sha256 != digest:
        message = f"the idempotency key {place[3]!r} was used with another body"
        raise Problem(Reason.IdempotencyKeyReused, message, fix="Use a new key for a new request.")
    return answer.status, json.loads(answer.body)
