"""One activation of an execution: it replays recorded steps and records new ones, each before and after its act.

A step is found by its key, and its place in the program is checked, so a recorded result is never given to other code.
What is recorded as Completed is returned without running anything.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from corral.base import money
from corral.store import Store, Tx, executions, journal
from corral.store.executions import Row
from corral.store.journal import Message, Step

from .outcomes import (
    MAX_COST_REACHED,
    NEEDS_RESOLUTION,
    Effect,
    Interrupted,
    LostClaim,
    OutcomeUnknown,
    Park,
    ReplayMismatch,
    Result,
    StepFailed,
)

STEP_LIMIT = 10_000
CHARGED_ATTEMPTS = 3

Act = Callable[[], Awaitable[Result]]
Observe = Callable[[Tx, Row], Awaitable[None]]


async def _ignore(tx: Tx, row: Row) -> None:
    """The observer of a program that shows nothing."""


class Execution:
    """A claimed execution, in the hands of its program."""

    def __init__(self, store: Store, row: Row, recorded: list[Step], input: Any) -> None:
        self.id, self.epoch, self.input = row.id, row.epoch, input
        self.row = row
        self.observe: Observe = _ignore
        """Called in the transaction of each recorded result, to show progress."""
        self._store = store
        self._recorded = {step.key: step for step in recorded}
        self._places = [step.key for step in recorded]
        self._place = 0

    @property
    def steps(self) -> int:
        """How many steps the program has begun, replayed ones included."""
        return self._place

    async def step(
        self,
        key: str,
        name: str,
        act: Act,
        *,
        effect: Effect,
        interrupted: Interrupted | None = None,
        reserve: int = 0,
        detail: dict[str, Any] | None = None,
        tries: list[dict[str, Any]] | None = None,
    ) -> Step:
        """The step's recorded result, or that of `act`, run now and recorded.

        `reserve` nano-USD are held against the cap while the act runs, and its cost is settled with the result. What
        `act` appends to `tries` is recorded too, however it ends: as `attempts` in the step's detail.
        Raises Park (MaxCostReached, NeedsResolution), StepFailed, LostClaim, ReplayMismatch.
        """
        interrupted = interrupted or ("park" if effect == "external" else "again")
        if reserve and interrupted == "again":
            raise ValueError("an act that may be repeated cannot hold money: its attempts could not be told apart")
        step = self._next(key)
        if step is None:
            step = self._new(key, name, effect, "Started", detail, reserved=reserve)
            await self._begin(step)
        elif step.state == "Completed":
            return step
        elif step.state == "Failed":
            raise StepFailed(step.detail.get("reason", "Failed"), step.detail.get("error", ""))
        elif interrupted == "park" or (interrupted == "again" and step.state == "Uncertain"):
            raise Park(NEEDS_RESOLUTION, self._unresolved(step))
        else:
            if step.state == "Started" and interrupted == "charge":
                await self._charge(step, "the worker ended during the call")
            await self._again(step, reserve, detail)
        return await self._perform(step, act, interrupted, reserve, detail, [] if tries is None else tries)

    def _new(
        self,
        key: str,
        name: str,
        effect: Effect,
        state: str,
        detail: dict[str, Any] | None,
        *,
        output: Any = None,
        reserved: int = 0,
    ) -> Step:
        return Step(
            key=key,
            place=self._place,
            name=name,
            effect=effect,
            state=state,
            epoch=self.epoch,
            attempt=1,
            detail=dict(detail or {}),
            output=output,
            reserved=reserved,
        )

    async def pure(self, key: str, name: str, value: Any, detail: dict[str, Any] | None = None) -> Any:
        """Record a value that has no effect outside, in one write; a recorded one wins."""
        step = self._next(key)
        if step is not None:
            return step.output
        step = self._new(key, name, "pure", "Completed", detail, output=value)

        async def write(tx: Tx) -> None:
            await self._fence(tx)
            await journal.record(tx, self.id, step)
            await self.observe(tx, self.row)

        await self._store.write(write)
        return value

    async def receive(self, key: str) -> Message:
        """The next message of the inbox; reading and recording it are one transaction. Raises Park if there is none."""
        recorded = self._next(key)
        if recorded is not None:
            return Message(recorded.output["key"], recorded.output["seq"], recorded.output["payload"])

        async def write(tx: Tx) -> Message | None:
            await self._fence(tx)
            message = await journal.next_message(tx, self.id)
            if message is None:
                return None
            value = {"key": message.key, "seq": message.seq, "payload": message.payload}
            step = self._new(key, "message", "pure", "Completed", {"key": message.key}, output=value)
            await journal.record(tx, self.id, step)
            await journal.consume(tx, self.id, message, key)
            await self.observe(tx, self.row)
            return message

        message = await self._store.write(write)
        if message is None:
            self._place -= 1
            raise Park(executions.WAITING_FOR_MESSAGE, "waiting for a message")
        return message

    def _next(self, key: str) -> Step | None:
        if self._place >= STEP_LIMIT:
            raise StepFailed("StepLimitReached", f"a run records at most {STEP_LIMIT} steps")
        self._place += 1
        step = self._recorded.get(key)
        here = self._places[self._place - 1] if self._place <= len(self._places) else None
        if here is not None and here != key:
            raise ReplayMismatch(
                f"step {self._place} of this run was recorded as {here}, but the program now asks for {key}"
            )
        return step

    async def _perform(
        self,
        step: Step,
        act: Act,
        interrupted: Interrupted,
        reserve: int,
        detail: dict[str, Any] | None,
        tries: list[dict[str, Any]],
    ) -> Step:
        while True:
            try:
                try:
                    result = await act()
                finally:
                    step.detail |= _attempts([*step.detail.get("attempts", []), *tries])
                    tries.clear()
            except StepFailed as failure:
                step.detail |= {"reason": failure.reason, "error": failure.message}
                await self._finish(step, "Failed", cost=0)
                raise
            except OutcomeUnknown as unknown:
                if interrupted != "charge":
                    step.detail["error"] = str(unknown)
                    await self._finish(step, "Uncertain", cost=step.reserved)
                    raise Park(NEEDS_RESOLUTION, self._unresolved(step)) from unknown
                await self._charge(step, str(unknown))
                if step.attempt >= CHARGED_ATTEMPTS:
                    raise StepFailed("ModelUnavailable", f"{step.attempt} attempts: {unknown}") from unknown
                await self._again(step, reserve, detail)
                continue
            step.output = result.value
            step.detail |= result.detail
            await self._finish(step, "Completed", cost=result.cost)
            return step

    async def _begin(self, step: Step) -> None:
        async def write(tx: Tx) -> None:
            if step.reserved:
                await self._reserve(tx, step)
            else:
                await self._fence(tx)
            await journal.begin(tx, self.id, step)

        await self._store.write(write)

    async def _again(self, step: Step, reserve: int, detail: dict[str, Any] | None) -> None:
        step.attempt, step.epoch, step.reserved = step.attempt + 1, self.epoch, reserve
        step.state, step.detail = "Started", dict(detail or {}) | _attempts(step.detail.get("attempts", []))
        await self._begin(step)

    async def _charge(self, step: Step, why: str) -> None:
        """Book an attempt of unknown outcome at the most it can have cost."""
        failed = {"outcome": "Uncertain", "error": why, "costUSD": money.usd(step.reserved)}
        step.detail["attempts"] = [*step.detail.get("attempts", []), failed]
        await self._finish(step, "Uncertain", cost=step.reserved)

    async def _finish(self, step: Step, state: str, cost: int) -> None:
        step.state = state

        async def write(tx: Tx) -> None:
            row = await executions.settle(tx, self.id, self.epoch, step.reserved, cost)
            if row is None:
                raise LostClaim(self.id)
            self.row = row
            await journal.finish(tx, self.id, step, cost)
            await self.observe(tx, row)

        await self._store.write(write)
        step.cost, step.reserved = step.cost + cost, 0

    async def _reserve(self, tx: Tx, step: Step) -> None:
        row = await executions.reserve(tx, self.id, self.epoch, step.reserved)
        if row is not None:
            self.row = row
            return
        row = await self._fence(tx)
        left = (row.cap or 0) - row.spent - row.reserved
        raise Park(
            MAX_COST_REACHED,
            f"the next call could cost up to ${money.usd(step.reserved)}, and ${money.usd(max(left, 0))} of the cap of "
            f"${money.usd(row.cap or 0)} is left; cancel the run and start one with a higher cap",
        )

    async def _fence(self, tx: Tx) -> Row:
        row = await executions.fenced(tx, self.id, self.epoch)
        if row is None:
            raise LostClaim(self.id)
        self.row = row
        return row

    @staticmethod
    def _unresolved(step: Step) -> str:
        what = step.detail.get("command") or step.detail.get("model") or ""
        why = step.detail.get("error") or "the worker ended during it"
        return f"what became of step {step.key} ({step.name} {what}) is not known: {why}".replace(" )", ")")


def _attempts(attempts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"attempts": attempts} if attempts else {}
