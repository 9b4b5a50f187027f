"""AgentRun: gives each run its sandbox, drives its conversation, and writes what people see of it."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from corral.agents import tools
from corral.agents.job import PROGRAM, Job
from corral.agents.progress import Progress
from corral.agents.tooling import ToolSpec
from corral.agents.turn import Conversation, Surroundings
from corral.base import clock, money, plugins
from corral.durable.execution import Execution
from corral.durable.outcomes import MAX_COST_REACHED, NEEDS_RESOLUTION, Ending, StepFailed
from corral.gateway.router import Gateway, ModelNotAvailable, Route
from corral.kinds.agentrun import FINISHED
from corral.sandboxes import Driver, Sandbox, SandboxError, SandboxGone, SandboxSpec
from corral.store import Store, StoreError, Tx, blobs, events, executions, objects
from corral.store.executions import Row
from corral.store.objects import Stored
from corral.store.vault import Vault

log = logging.getLogger(__name__)

DEFAULT_IMAGE, HOST_IMAGE = "nodus/agent-tools", "host"
"""An agent that names no image gets the programs of this machine."""

_PHASES = {
    "ready": "Queued",
    "running": "Running",
    "waiting": "Waiting",
    "cancelling": "Cancelling",
    "cancelled": "Cancelled",
    "succeeded": "Succeeded",
    "failed": "Failed",
}


def _load_tools() -> dict[str, ToolSpec[Any]]:
    found = (plugins.load(tools, name).tool for name in plugins.names(tools))
    # The shell first: models take the first tool that fits.
    return {tool.name: tool for tool in sorted(found, key=lambda tool: (tool.name != "shell", tool.name))}


@dataclass
class AgentRuns:
    """The program of agent runs."""

    store: Store
    gateway: Gateway
    driver: Driver
    vault: Vault

    def __post_init__(self) -> None:
        self._tools = _load_tools()

    async def run(self, execution: Execution) -> Ending:
        """Drive a run to its end."""
        job = Job.load(execution.input)
        progress = Progress()

        async def observe(tx: Tx, row: Row) -> None:
            status = progress.wire(execution) | {"cost": _cost(row)}
            before = await self._write(tx, row.id, status)
            if progress.answer is not None and before and before.status.get("answer") != status["answer"]:
                await blobs.put(tx, progress.answer.encode("utf-8", "replace"))

        execution.observe = observe
        try:
            route = await self._route(job)
        except ModelNotAvailable as error:
            raise StepFailed("ModelUnavailable", f"{error.message}. {error.fix}") from error
        secrets = await self._secrets(job)
        boxes = _Boxes(self.driver, execution.id, job, secrets)
        around = Surroundings(self.gateway, route, self._tools, boxes.create, boxes.get, secrets)
        return await Conversation(execution, job, around, progress).run()

    async def show(self, tx: Tx, row: Row) -> None:
        """Write the run's phase and the reason for it."""
        status: dict[str, Any] = {
            "phase": _PHASES[row.state],
            "reason": row.reason,
            "message": row.message,
            "dispatches": row.epoch,
            "cost": _cost(row),
        }
        stored = await self._write(tx, row.id, status)
        if stored is not None and row.state != "ready":
            bad = row.state == "failed" or row.reason in (NEEDS_RESOLUTION, MAX_COST_REACHED)
            told = row.message or f"the run is {status['phase'].lower()}"
            await events.note(tx, stored, row.reason or status["phase"], told, warning=bad)

    async def release(self, execution: str) -> None:
        """Delete the run's sandbox; its files stay if that was asked for."""
        async with self.store.read() as conn:
            stored = await objects.get_uid(conn, execution)
        annotations = stored.metadata.get("annotations", {}) if stored else {}
        keep = annotations.get("corral.dev/keep-sandbox") == "true"
        await self.driver.destroy(execution, keep_files=keep)

    async def _write(self, tx: Tx, uid: str, change: Mapping[str, Any]) -> Stored | None:
        stored = await objects.get_uid(tx.conn, uid)
        if stored is None:
            return None
        status = {**stored.status, **change}
        moment = clock.rfc3339(clock.now())
        if status["phase"] == "Running" and not status.get("startTime"):
            status["startTime"] = moment
        if status["phase"] in FINISHED and not status.get("completionTime"):
            status["completionTime"] = moment
        await objects.update(tx, stored, status=status)
        return stored

    async def _route(self, job: Job) -> Route:
        if job.model.own is None:
            return self.gateway.resolve(job.model.id)
        own = job.model.own
        async with self.store.read() as conn:
            values = await self.vault.get(conn, own.secret.uid, own.secret.version)
        if values is None or own.field not in values:
            raise StepFailed("SecretGone", "the secret with the model's key was deleted before the run was done")
        return self.gateway.own(job.model.id, values[own.field].decode("utf-8", "replace").strip())

    async def _secrets(self, job: Job) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        async with self.store.read() as conn:
            for secret in job.secrets:
                values = await self.vault.get(conn, secret.uid, secret.version)
                if values is None:
                    raise StepFailed("SecretGone", "a secret of the run's agent was deleted before the run began")
                found |= values
        return found

    async def sweep(self) -> None:
        """Delete what deleted runs and crashes left behind: records without a run, then sandboxes without a record."""
        async with self.store.read() as conn:
            orphans = await executions.orphans(conn, PROGRAM)
        for orphan in orphans:
            await self.store.write(partial(executions.forget, execution=orphan))
        async for sandbox in self.driver.list():
            async with self.store.read() as conn:
                row = await executions.get(conn, sandbox)
            if row is None:
                log.warning("sandbox %s belongs to no run; deleting it", sandbox)
                await self.driver.destroy(sandbox)

    async def attend(self) -> None:
        """Speak to the sandboxes of unfinished runs, which would end themselves if nobody did for hours."""
        async with self.store.read() as conn:
            unfinished = await executions.unfinished(conn, PROGRAM)
        for run in unfinished:
            await self.driver.adopt(run)

    async def sweep_for_ever(self, every: float = 60.0) -> None:
        """Sweep now, and then every so many seconds, and attend to the sandboxes that stay."""
        while True:
            try:
                await self.sweep()
                await self.attend()
            except (SandboxError, StoreError, OSError):
                log.exception("the sweep of sandboxes failed; the next one tries again")
            await anyio.sleep(every)


@dataclass
class _Boxes:
    """The sandbox of one run, made or adopted when it is first needed."""

    driver: Driver
    run: str
    job: Job
    secrets: Mapping[str, bytes]
    _box: Sandbox | None = None

    async def create(self) -> dict[str, Any]:
        image = HOST_IMAGE if self.job.image == DEFAULT_IMAGE else self.job.image
        spec = SandboxSpec(
            id=self.run, image=image, working_dir=self.job.working_dir, env=self.job.env, secrets=self.secrets
        )
        try:
            self._box = await self.driver.create(spec)
        except SandboxError as error:
            raise StepFailed("SandboxFailed", str(error)) from error
        place = self.driver.workspace(self.run) if self.job.keep_sandbox else None
        return {"driver": self.driver.name, "sandbox": place or self.run}

    async def get(self) -> Sandbox:
        if self._box is None:
            self._box = await self.driver.adopt(self.run)
        if self._box is None:
            raise SandboxGone("it does not run any more")
        return self._box


def _cost(row: Row) -> dict[str, str]:
    cost = {"totalUSD": money.usd(row.spent), "heldUSD": money.usd(row.reserved)}
    return cost | ({"limitUSD": money.usd(row.cap)} if row.cap is not None else {})
