"""AgentRun: a handle to one conversation at the server."""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from decimal import Decimal
from typing import Any, Self, TypeVar

import anyio

from corral.kinds.agentrun import FINISHED

from ._forms import both, stream
from .client import Client as AsyncClient
from .connection import ENVIRONMENT, Client
from .errors import AgentRunFailed, AgentRunFinished, Expired, NotFound, TimedOut, UsageError
from .views import View, view

T = TypeVar("T")

PLURAL = "agentruns"


class AgentRun:
    """One run. Every method has a second form for asyncio code: `await run.answer.aio()`.

    As a context manager, `with agent.submit(prompt, keep_alive=True) as run`, it cancels the run at the end.
    """

    def __init__(self, name: str, namespace: str | None = None, *, client: Client | None = None) -> None:
        self._name, self._namespace, self._client = name, namespace, client or ENVIRONMENT

    def __repr__(self) -> str:
        return f"<AgentRun {self._name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.cancel.aio()

    @property
    def name(self) -> str:
        """The run's name."""
        return self._name

    @property
    def namespace(self) -> str | None:
        """The project it is in; None for the project of the environment."""
        return self._namespace

    @classmethod
    def from_name(cls, name: str, project: str | None = None, *, client: Client | None = None) -> "AgentRun":
        """The run of that name. Nothing is asked: a run that does not exist shows at the first call."""
        return cls(name, project, client=client)

    @both
    async def status(self) -> View:
        """How far it is: `phase`, `reason`, `turns`, `cost`, `answer` and more. Raises NotFound."""
        return await self._status(await self._core())

    @both
    async def cost(self) -> Decimal:
        """What its models have cost so far, in USD."""
        status = await self._status(await self._core())
        return Decimal(str((status.get("cost") or {}).get("totalUSD") or "0"))

    @both
    async def wait(self, timeout: float | None = None) -> View:
        """Wait until the run has ended; the whole object.

        A run that is kept alive ends when it is cancelled, or at its deadline. Raises AgentRunFailed when it has not
        succeeded, and TimedOut after `timeout` seconds; then the run goes on.
        """
        ended = await self._within(timeout, "end", self._end)
        if ended["status"].get("phase") != "Succeeded":
            raise AgentRunFailed(self._name, ended["status"])
        return ended

    @both
    async def answer(self, timeout: float | None = None) -> str:
        """The text of the latest answer; waits while a turn is pending. Raises NotFound when there is none."""
        return await self._within(timeout, "answer", self._answer)

    @both
    async def result(self, timeout: float | None = None) -> str:
        """The answer of a run that has gone well. Raises AgentRunFailed when it has failed or was cancelled."""
        return await self._within(timeout, "answer", self._result)

    @both
    async def steps(self) -> list[View]:
        """What the run did, in order: sandbox, model calls, commands; with times, outcome and cost."""
        return [view(step) for step in (await (await self._core()).steps(self._name))["items"]]

    @stream
    async def follow(self) -> AsyncGenerator[View]:
        """What the run did and does, until it has ended.

        `{"type": "step", "step": {...}}` whenever a step changes, `{"type": "run", "object": {...}}` when the run does.
        A broken connection is made again, and goes on where it was.
        """
        core = await self._core()
        async with aclosing(core.follow(self._name)) as events:
            async for event in events:
                yield view(event)

    @both
    async def send(self, name: str, payload: Any, key: str | None = None, *, message_key: str | None = None) -> View:
        """Give a run that is kept alive its next prompt, text or any JSON value, as `send("message", "And then?")`.

        With the same `key` (or `message_key`, its name on the wire) a message is delivered once, however often it is
        sent. The receipt has `seq` and `messageKey`. Raises AgentRunFinished.
        """
        if key and message_key and key != message_key:
            raise UsageError("key and message_key are two names for one thing and differ", "Give one of them.")
        # A key of our own makes it safe to repeat the request when the connection breaks.
        sent = key or message_key or f"sdk-{uuid.uuid4().hex}"
        return _seen(await (await self._core()).send(self._name, payload, key=sent, title=name))

    @both
    async def cancel(self) -> None:
        """Stop the run at once, commands and model calls included. One that has ended is left as it is."""
        await stop(await self._core(), self._name)

    @both
    async def delete(self) -> None:
        """Delete the run, its answer and its steps; one that works is cancelled. Raises NotFound."""
        await (await self._core()).delete(PLURAL, self._name)

    async def _core(self) -> AsyncClient:
        return await self._client.core(self._namespace)

    async def _status(self, core: AsyncClient) -> View:
        return _seen((await core.get(PLURAL, self._name)).get("status") or {})

    async def _within(self, timeout: float | None, what: str, work: Callable[[AsyncClient], Awaitable[T]]) -> T:
        core = await self._core()
        try:
            with anyio.fail_after(timeout):
                return await work(core)
        except TimeoutError as error:
            raise TimedOut(
                f"the run {self._name!r} did not {what} within {timeout:g} s",
                f"It goes on; AgentRun.from_name({self._name!r}) gives it back.",
            ) from error

    async def _end(self, core: AsyncClient) -> View:
        """The run when it has ended. Changes that the server no longer has are made up for by reading it anew."""
        while True:
            found = await core.get(PLURAL, self._name)
            if _finished(found):
                return _seen(found)
            try:
                async with aclosing(
                    core.watch(PLURAL, since=found["metadata"]["resourceVersion"], name=self._name)
                ) as events:
                    async for event in events:
                        if event.type == "DELETED":
                            raise NotFound(
                                {"message": f"the run {self._name!r} was deleted", "reason": "NotFound", "code": 404}
                            )
                        if _finished(event.object):
                            return _seen(event.object)
            except Expired:
                continue

    async def _answer(self, core: AsyncClient) -> str:
        return await core.answer(self._name)

    async def _result(self, core: AsyncClient) -> str:
        return await result(core, self._name)


async def result(core: AsyncClient, name: str) -> str:
    """The answer of a run that has gone well. Raises AgentRunFailed otherwise."""
    try:
        text = await core.answer(name)
    except NotFound:
        status = (await core.get(PLURAL, name)).get("status") or {}
        if status.get("phase") in FINISHED:
            raise AgentRunFailed(name, view(status)) from None
        raise
    status = (await core.get(PLURAL, name)).get("status") or {}
    if status.get("phase") in ("Failed", "Cancelled"):
        raise AgentRunFailed(name, view(status))
    return text


async def stop(core: AsyncClient, name: str) -> None:
    """Cancel a run, unless it has ended."""
    try:
        await core.patch(PLURAL, name, {"spec": {"state": "Cancelled"}})
    except AgentRunFinished:
        return


def _finished(document: Mapping[str, Any]) -> bool:
    return (document.get("status") or {}).get("phase") in FINISHED


def _seen(document: Mapping[str, Any]) -> View:
    found = view(document)
    assert isinstance(found, View)
    return found
