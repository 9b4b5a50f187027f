"""Agent: define one, run it, run many of it."""

import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

import anyio

from . import _definition, runs
from ._definition import Definition, Submission, run_spec
from ._fan import Outcome, gather
from ._forms import both, stream
from .client import Client as AsyncClient
from .connection import ENVIRONMENT, Client
from .errors import CorralError, Invalid, NotFound, TimedOut, Unsupported, UsageError
from .runs import AgentRun
from .secrets import Secret
from .views import View, view

PLURAL = "agents"
_CANCEL_SECONDS = 10.0


class Agent:
    """A setup for runs. Every method has a second form for asyncio code: `await agent.remote.aio(prompt)`.

    The agent is created, or changed to what is written here, when it is first used; `deploy` does so at once. What is
    not written stays as it is at the server. The arguments are those of `Definition`; `project` is where the agent
    lives, and `client` is for servers other than that of the environment.
    """

    def __init__(
        self, name: str, *, project: str | None = None, client: Client | None = None, **definition: Unpack[Definition]
    ) -> None:
        _definition.known("an agent", definition, Definition)
        self._name, self._project, self._client = name, project, client or ENVIRONMENT
        self._definition: Mapping[str, Any] | None = definition
        self._deployed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._name

    @classmethod
    def from_name(cls, name: str, project: str | None = None, *, client: Client | None = None) -> "Agent":
        """The agent of that name, as it is at the server. Its runs are created in its project."""
        found = Agent(name, project=project, client=client)
        found._definition, found._deployed = None, True
        return found

    @both
    async def deploy(self) -> View:
        """Create the agent, or change it to what is written here; the object after it.

        What an earlier `deploy` set and is no longer written is removed, what others set stays. Raises Invalid, and
        Unsupported for what this server does not know.
        """
        return await self._deploy(await self._core())

    @both
    async def submit(
        self,
        prompt: Any,
        *,
        keep_alive: bool = False,
        name: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[Submission],
    ) -> AgentRun:
        """Begin a run and return at once. `prompt` is text or any JSON value.

        With `keep_alive` it waits for messages after each answer, instead of finishing. The same `idempotency_key`,
        within a day, gives the same run again. Raises AgentStopped.
        """
        spec = run_spec(self._name, prompt, options) | ({"keepAlive": True} if keep_alive else {})
        metadata = {"name": name} if name else {"generateName": f"{self._name[:190]}-"}
        created = await _submit(await self._ready(), metadata, spec, idempotency_key or "")
        return AgentRun(created["metadata"]["name"], created["metadata"].get("namespace"), client=self._client)

    @both
    async def remote(self, prompt: Any, *, timeout: float | None = None, **options: Unpack[Submission]) -> str:
        """Run the agent to the end; the answer.

        When the call is given up, by `timeout` seconds or by an interruption, the run is cancelled. Raises
        AgentRunFailed and TimedOut.
        """
        spec = run_spec(self._name, prompt, options)
        try:
            with anyio.fail_after(timeout):
                return await self._answer(await self._ready(), spec)
        except TimeoutError as error:
            message = f"the agent {self._name!r} did not answer within {timeout:g} s; the run was cancelled"
            raise TimedOut(message, "Give it more time, or use submit and wait.") from error

    @stream
    def map(
        self,
        inputs: Iterable[Any],
        *,
        max_active: int = 10,
        order_outputs: bool = True,
        return_exceptions: bool = False,
        **options: Unpack[Submission],
    ) -> AsyncGenerator[Any]:
        """Run the agent once for each input, `max_active` (1 to 100) at a time, and yield the answers.

        They come in the order of the inputs, or as they finish without `order_outputs`. A run that fails raises
        AgentRunFailed here, or is yielded as that exception with `return_exceptions`. When the iteration ends early,
        the runs that still work are cancelled.
        """
        if not 1 <= max_active <= 100:
            raise UsageError(f"max_active is {max_active}", "Give a number from 1 to 100.")
        # Here, on the caller's thread, since the inputs may be made by code that uses the SDK itself.
        specs = [run_spec(self._name, prompt, options) for prompt in inputs]
        outcomes = gather(self._ready, self._outcome, specs, max_active=max_active, ordered=order_outputs)
        return _answers(outcomes, return_exceptions)

    @both
    async def start(self) -> None:
        """Take new runs again."""
        await (await self._core()).patch(PLURAL, self._name, {"spec": {"state": "Running"}})

    @both
    async def stop(self) -> None:
        """Refuse new runs; those that exist go on."""
        await (await self._core()).patch(PLURAL, self._name, {"spec": {"state": "Stopped"}})

    @both
    async def delete(self) -> None:
        """Delete the agent; its runs stay. Raises NotFound."""
        await (await self._core()).delete(PLURAL, self._name)
        self._deployed = self._definition is None

    async def _core(self) -> AsyncClient:
        return await self._client.core(self._project)

    async def _ready(self) -> AsyncClient:
        core = await self._core()
        if not self._deployed:
            await self._deploy(core)
        return core

    async def _deploy(self, core: AsyncClient) -> View:
        if self._definition is None:
            fix = f"Write it down: {type(self).__name__}({self._name!r}, system=...)."
            raise UsageError(f"the agent {self._name!r} was taken by its name and has no definition", fix)
        secrets = [
            await item.ensure(self._client, self._project) if isinstance(item, Secret) else item
            for item in self._definition.get("secrets") or ()
        ]
        spec = _definition.spec(self._definition, secrets)
        with _known_to_server():
            applied = await core.apply(PLURAL, {"kind": "Agent", "metadata": {"name": self._name}, "spec": spec})
        self._deployed = True
        found = view(applied.object)
        assert isinstance(found, View)
        return found

    async def _answer(self, core: AsyncClient, spec: Mapping[str, Any]) -> str:
        """The answer of a new run. A run that nobody waits for any more is cancelled."""
        # The name is ours, so that the run can be cancelled even when the answer to its creation was lost.
        name = f"{self._name[:200]}-{uuid.uuid4().hex[:10]}"
        try:
            await _submit(core, {"name": name}, spec)
            return await runs.result(core, name)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
                await _give_up(core, name)
            raise

    async def _outcome(self, core: AsyncClient, spec: Mapping[str, Any]) -> Outcome:
        try:
            return await self._answer(core, spec)
        except CorralError as error:
            return error


class ClaudeAgent(Agent):
    """An agent on Claude: the server chooses among `families`, or `model` says which one.

    With `api_key_secret` the runs are paid with your own key.
    """


class ModelAgent(Agent):
    """An agent on the model that `model` names."""

    def __init__(
        self, name: str, *, project: str | None = None, client: Client | None = None, **definition: Unpack[Definition]
    ) -> None:
        if not definition.get("model"):
            raise UsageError("a ModelAgent needs a model", 'Give its id, such as model="openai/gpt-oss-20b".')
        super().__init__(name, project=project, client=client, **definition)


async def _submit(
    core: AsyncClient, metadata: Mapping[str, Any], spec: Mapping[str, Any], key: str = ""
) -> dict[str, Any]:
    with _known_to_server():
        return await core.create(runs.PLURAL, {"kind": "AgentRun", "metadata": metadata, "spec": spec}, key=key)


async def _give_up(core: AsyncClient, name: str) -> None:
    try:
        await runs.stop(core, name)
    except NotFound:
        # It was never created.
        return


async def _answers(outcomes: AsyncGenerator[Outcome], return_exceptions: bool) -> AsyncGenerator[Any]:
    try:
        async for outcome in outcomes:
            if isinstance(outcome, CorralError) and not return_exceptions:
                raise outcome
            yield outcome
    finally:
        await outcomes.aclose()


@contextmanager
def _known_to_server() -> Iterator[None]:
    """A field that the server does not know is not a mistake of the program: Unsupported."""
    try:
        yield
    except Invalid as error:
        unknown = [cause.field for cause in error.causes if cause.reason == "FieldValueNotSupported"]
        if not unknown:
            raise
        told = {
            "code": error.code,
            "reason": "Unsupported",
            "message": f"this server does not know {', '.join(unknown)}",
            "fix": "Leave out the argument that sets it, or update the server.",
            "requestId": error.request_id,
            "details": error.details,
        }
        raise Unsupported(told) from error
