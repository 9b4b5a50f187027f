"""A worker: it claims ready executions, drives their programs, and keeps the promises that no activation keeps.

Each beat renews the worker's lease, takes over what dead workers left, fails what is past its deadline, interrupts
what it no longer owns, and releases what ended executions still hold outside. All of it is found in the database, so
nothing is lost when a worker dies between two lines.
"""

import logging
import socket
import time
from collections.abc import Mapping
from functools import partial
from typing import Protocol

import anyio
import anyio.abc

from corral.base import ids
from corral.store import Store, StoreError, Tx, blobs, executions, journal
from corral.store.executions import Row

from .execution import Execution
from .outcomes import Ending, LostClaim, Park, ReplayMismatch, StepFailed

log = logging.getLogger(__name__)

DEADLINE_EXCEEDED = "DeadlineExceeded"


class Program(Protocol):
    """What an execution runs, and how its state is shown."""

    async def run(self, execution: Execution) -> Ending:
        """Drive the execution to its end. Raises Park, StepFailed, LostClaim."""
        ...

    async def show(self, tx: Tx, row: Row) -> None:
        """Write what people see of the execution's new state, in the transaction that makes it."""
        ...

    async def release(self, execution: str) -> None:
        """Give back what the execution holds outside (a sandbox); again and again is fine."""
        ...


class Worker:
    """Drives executions until it is cancelled; with `since` (ns since 1970), only those submitted from then on."""

    beat = 0.5
    """Seconds between beats."""
    gather = 0.02
    """Seconds to let changes gather before a sweep looks at them all at once."""
    lease = 5.0
    """Seconds without a beat after which the others take over."""

    def __init__(self, store: Store, programs: Mapping[str, Program], *, concurrency: int = 64, since: int = 0) -> None:
        self.id = f"{socket.gethostname()}-{ids.new_suffix(8)}"
        self._store, self._programs, self._concurrency = store, programs, concurrency
        # By claim, not by execution: what was taken over may still be winding down when it is claimed again.
        self._active: dict[tuple[str, int], anyio.CancelScope] = {}
        self._since = since
        self._left: list[tuple[str, int]] = []
        self._releasing: set[str] = set()
        self._strays: set[tuple[str, int]] = set()
        self._last_beat = 0.0

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled. On the way out, what is claimed is given back for the next worker."""
        await self._store.write(lambda tx: executions.beat(tx, self.id, int(self.lease * 1000)))
        await self._store.write(executions.take_over)
        self._last_beat = time.monotonic()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._beats)
                task_status.started()
                await self._claims(tasks)
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def _claims(self, tasks: anyio.abc.TaskGroup) -> None:
        seen = 0
        while True:
            try:
                claimed = await self._claim()
            except StoreError:
                log.exception("worker %s could not claim; it tries again", self.id)
                claimed = []
                await anyio.sleep(self.beat)
            for row in claimed:
                scope = self._active[row.id, row.epoch] = anyio.CancelScope()
                tasks.start_soon(self._activate, row, scope)
            if not claimed:
                seen = await self._store.wait(seen, self.beat)

    async def _claim(self) -> list[Row]:
        room = self._concurrency - len(self._active)
        if room <= 0 or time.monotonic() - self._last_beat > self.lease / 2:
            return []

        async def write(tx: Tx) -> list[Row]:
            rows = await executions.claim(tx, self.id, room, self._since)
            for row in rows:
                await self._programs[row.program].show(tx, row)
            return rows

        return await self._store.write(write)

    async def _activate(self, row: Row, scope: anyio.CancelScope) -> None:
        program = self._programs[row.program]
        try:
            with scope:
                await self._drive(program, row)
            await self._settle(program, row.id)
        except anyio.get_cancelled_exc_class():
            self._left.append((row.id, row.epoch))
            raise
        except StoreError:  # the journal says how far it is; a sweep gives the claim back for another activation
            log.exception("run %s lost the database; it goes on when that is back", row.id)
        finally:
            del self._active[row.id, row.epoch]

    async def _drive(self, program: Program, row: Row) -> None:
        async with self._store.read() as conn:
            recorded = await journal.load(conn, row.id)
            given = (await blobs.load(conn, [row.input]))[row.input]
        execution = Execution(self._store, row, recorded, given)
        try:
            ending = await program.run(execution)
        except Park as park:
            await self._park(program, execution, park)
            return
        except LostClaim:
            return
        except StepFailed as failure:
            ending = Ending("failed", failure.reason, failure.message)
        except ReplayMismatch as mismatch:
            ending = Ending("failed", "ReplayMismatch", str(mismatch))
        except StoreError:
            raise
        except Exception as error:  # a fault of ours must end one run, not the worker with all the others
            log.exception("run %s ended by an internal error", row.id)
            ending = Ending("failed", "InternalError", f"{type(error).__name__}: {error}")
        await self._end(program, execution, ending)

    async def _park(self, program: Program, execution: Execution, park: Park) -> None:
        async def write(tx: Tx) -> None:
            row = await executions.park(tx, execution.id, execution.epoch, park.reason, park.message)
            if row is not None:
                await program.show(tx, row)

        await self._store.write(write)

    async def _end(self, program: Program, execution: Execution, ending: Ending) -> None:
        async def write(tx: Tx) -> None:
            row = await executions.end(tx, execution.id, execution.epoch, ending.state, ending.reason, ending.message)
            if row is not None:
                await program.show(tx, row)

        await self._store.write(write)

    async def _settle(self, program: Program, execution: str) -> None:
        """What follows an activation: an ended or cancelled execution gives back what it holds."""
        async with self._store.read() as conn:
            row = await executions.get(conn, execution)
        if row is not None and row.state in (*executions.TERMINAL, "cancelling"):
            await self._release(program, row)

    async def _release(self, program: Program, row: Row) -> None:
        if row.id in self._releasing:
            return
        self._releasing.add(row.id)
        try:
            await program.release(row.id)
            await self._released(program, row)
        except Exception:  # found again by the next sweep, which tries until it is gone
            log.exception("what run %s holds could not be released", row.id)
        finally:
            self._releasing.discard(row.id)

    async def _released(self, program: Program, row: Row) -> None:
        async def write(tx: Tx) -> None:
            if row.state != "cancelling":
                await executions.released(tx, row.id)
            elif (ended := await executions.finish_cancel(tx, row.id)) is not None:
                await program.show(tx, ended)

        await self._store.write(write)

    async def _beats(self) -> None:
        seen = 0
        while True:
            try:
                await self._beat()
                await self._sweep()
            except Exception:  # a database that is away for a moment: the next beat tries again
                log.exception("a beat of worker %s failed", self.id)
                if time.monotonic() - self._last_beat > self.lease:
                    self._interrupt(list(self._active))
            seen = await self._store.wait(seen, self.beat)
            await anyio.sleep(self.gather)

    async def _beat(self) -> None:
        async def write(tx: Tx) -> None:
            await executions.beat(tx, self.id, int(self.lease * 1000))
            await executions.take_over(tx)

        if time.monotonic() - self._last_beat >= self.beat:
            await self._store.write(write)
            self._last_beat = time.monotonic()

    async def _sweep(self) -> None:
        async with self._store.read() as conn:
            overdue = await executions.overdue(conn, int(time.time() * 1000))
        for execution in overdue:
            await self._expire(execution)
        async with self._store.read() as conn:
            claims = list(self._active)
            self._interrupt(await executions.lost(conn, claims) if claims else [])
            held = await executions.held(conn, self.id)
            strays = set(await executions.claimed(conn, self.id)) - set(self._active)
        for row in held:
            if (row.id, row.epoch) not in self._active:
                await self._release(self._programs[row.program], row)
        # Seen twice: a claim that has just been made is not active yet for a moment.
        for execution, epoch in strays & self._strays:
            await self._store.write(partial(executions.release_claim, execution=execution, epoch=epoch))
        self._strays = strays

    async def _expire(self, execution: str) -> None:
        async def write(tx: Tx) -> None:
            row = await executions.expire(tx, execution, DEADLINE_EXCEEDED, "the run was not finished at its deadline")
            if row is not None:
                await self._programs[row.program].show(tx, row)

        await self._store.write(write)

    def _interrupt(self, claims: list[tuple[str, int]]) -> None:
        for claim in claims:
            if (scope := self._active.get(claim)) is not None:
                scope.cancel()

    async def _leave(self) -> None:
        async def write(tx: Tx) -> None:
            for execution, epoch in self._left:
                await executions.release_claim(tx, execution, epoch)
            await executions.leave(tx, self.id)

        await self._store.write(write)
