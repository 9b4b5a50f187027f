"""One run as `corral run` holds it: created, followed to its end, cancelled when the user asks, and summed up."""

import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import anyio

from corral.base import ids
from corral.cli.failures import INTERRUPTED, REFUSED, TIMED_OUT, Failure
from corral.cli.interruption import Interruption
from corral.cli.live import Live, usd
from corral.kinds.agentrun import FINISHED
from corral.sdk import ApiError, Client, Unreachable

CANCEL_SECONDS = 30.0
"""How long a run may take to become Cancelled before it is left."""
_STUCK = ("MaxCostReached", "NeedsResolution")
"""Why a run may wait for somebody; nothing more happens until they act."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    prompt: str
    agent: str
    """An agent that exists; empty to make one of `spec`."""
    spec: dict[str, Any]
    model: str
    deadline: str
    keep: bool
    project: str


class Conversation:
    """One run, from its creation to its end. `embedded`: its server is our own and ends with us."""

    def __init__(self, client: Client, live: Live, interruption: Interruption, *, embedded: bool) -> None:
        self._client, self._live, self._interruption = client, live, interruption
        self._embedded = embedded
        self._scope = anyio.CancelScope()
        self._stuck = anyio.Event()
        self._trouble: Failure | None = None
        self._run: dict[str, Any] = {}
        self._steps: dict[str, dict[str, Any]] = {}
        self._seconds = 0.0
        self.answer: str | None = None

    async def hold(self, request: Request) -> None:
        """Create the run, show it until it ends, and fetch its answer."""
        began = anyio.current_time()
        agent = request.agent or await self._agent(request)
        # From here on a run may exist: it is cancelled in order, not abandoned.
        self._interruption.handled = True
        self._run = await self._client.create("agentruns", _document(request, agent))
        async with anyio.create_task_group() as group:
            group.start_soon(self._cancel_when, self._interruption.asked)
            group.start_soon(self._cancel_when, self._stuck)
            with self._scope:
                await self._follow()
            group.cancel_scope.cancel()
        self._seconds = anyio.current_time() - began
        if self._status.get("phase") == "Succeeded":
            self.answer = await self._fetch_answer()

    def sum_up(self, request: Request) -> None:
        """Show what the run took, where its files are if they are kept, and why there is no answer if that is so."""
        self._live.note(self._summary())
        if request.keep and self._status.get("sandbox"):
            self._live.note(f"files    {self._status['sandbox']}")
        if self._interruption.asked.is_set() and self._status.get("phase") == "Cancelled":
            self._live.note("the run is cancelled")
            return
        for line in failure.lines() if (failure := self._failure()) else ():
            self._live.note(line, "red" if line.startswith("Error") else "")

    def code(self) -> int:
        """The exit code."""
        if self._interruption.asked.is_set() and self.answer is None:
            return INTERRUPTED
        failure = self._failure()
        return failure.code if failure else 0

    def report(self) -> dict[str, Any]:
        """The outcome for programs."""
        status = self._status
        return {
            "run": self._name,
            "phase": status.get("phase", ""),
            "reason": status.get("reason", ""),
            "message": status.get("message", ""),
            "answer": self.answer,
            "costUSD": (status.get("cost") or {}).get("totalUSD", "0.00"),
            "turns": len(status.get("turns") or []),
            "durationSeconds": round(self._seconds, 3),
            "steps": list(self._steps.values()),
        }

    @property
    def _name(self) -> str:
        return str(self._run["metadata"]["name"])

    @property
    def _status(self) -> dict[str, Any]:
        return self._run.get("status") or {}

    async def _agent(self, request: Request) -> str:
        """The name of the agent that the flags describe; the same flags give the same agent."""
        spec = dict(request.spec)
        if request.model:
            spec["model"] = {"access": "OnDemand", "name": request.model}
        name = f"run-{ids.digest(json.dumps(spec, sort_keys=True).encode())[:8]}"
        await self._client.apply("agents", {"kind": "Agent", "metadata": {"name": name}, "spec": spec})
        return name

    async def _follow(self) -> None:
        """Show what happens until the run is finished, or waits for somebody."""
        async with aclosing(self._client.follow(self._name)) as items:
            async for item in items:
                if item["type"] == "step":
                    self._steps[item["step"]["key"]] = item["step"]
                    self._live.step(item["step"])
                elif item["type"] == "run":
                    self._run = item["object"]
                    if self._status.get("phase") == "Waiting" and self._status.get("reason") in _STUCK:
                        self._trouble = self._trouble or self._waits()
                        if not self._embedded:
                            return
                        self._stuck.set()

    async def _cancel_when(self, event: anyio.Event) -> None:
        await event.wait()
        self._scope.deadline = anyio.current_time() + CANCEL_SECONDS
        self._live.note("cancelling the run ...")
        try:
            await self._client.patch("agentruns", self._name, {"spec": {"state": "Cancelled"}})
        except ApiError as error:
            # 409: it has finished by itself.
            if error.code != 409:
                raise
        except Unreachable as error:
            self._live.note(f"{error.message}; the run may go on there")
            self._scope.cancel()

    async def _fetch_answer(self) -> str | None:
        try:
            return await self._client.answer(self._name)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def _waits(self) -> Failure:
        """The run waits for somebody."""
        if self._embedded:
            fix = "The run was cancelled, as its server ends with this command. With `corral up` a run can wait."
        else:
            fix = f"The run waits on the server. See `corral describe agentrun/{self._name}`, or cancel it."
        return Failure(self._status.get("message") or "the run waits", reason=self._status["reason"], fix=fix)

    def _failure(self) -> Failure | None:
        """Why there is no answer, if that is so."""
        status = self._status
        phase, reason = status.get("phase", ""), status.get("reason", "")
        if self._trouble or phase == "Succeeded":
            return self._trouble
        if phase not in FINISHED:
            fix = f"See `corral describe agentrun/{self._name}`."
            return Failure(f"the run is still {phase}", reason="NotFinished", fix=fix)
        message = status.get("message") or f"the run ended as {phase}"
        return Failure(message, reason=reason or phase, code=TIMED_OUT if reason == "DeadlineExceeded" else REFUSED)

    def _summary(self) -> str:
        ended = [step for step in self._steps.values() if step["outcome"] != "Started"]
        calls = sum(step["name"] == "model" for step in ended)
        commands = sum((step.get("detail") or {}).get("tool") == "shell" for step in ended)
        cost = self._status.get("cost") or {}
        spent, limit = usd(cost.get("totalUSD", "0.00")), usd(cost.get("limitUSD", "0.00"))
        counted = f"{_count(calls, 'model call')}, {_count(commands, 'command')}"
        return f"run {self._name}  {counted}, {spent} of {limit}, {self._seconds:.1f} s"


def _document(request: Request, agent: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"agent": agent, "input": request.prompt}
    if request.agent and request.model:
        spec["model"] = {"access": "OnDemand", "name": request.model}
    if request.deadline:
        spec["deadline"] = request.deadline
    metadata: dict[str, Any] = {"generateName": "run-"}
    if request.keep:
        metadata["annotations"] = {"corral.dev/keep-sandbox": "true"}
    return {"kind": "AgentRun", "metadata": metadata, "spec": spec}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
