"""The conversation: for each prompt, model calls and tool calls in turn until the model answers; all of them recorded.

The history is rebuilt from recorded steps at each activation and is never stored as a whole: a step holds only what
was new.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from corral.base import clock, text
from corral.durable.execution import Execution
from corral.durable.outcomes import Ending, OutcomeUnknown, Result, StepFailed
from corral.gateway import retry
from corral.gateway.call import Block, CallError, Message, Reply, Request, Uncertain, Usage, largest
from corral.gateway.frames import MALFORMED
from corral.gateway.http import CONTEXT_TOO_LONG
from corral.gateway.router import Gateway, Route
from corral.sandboxes import Sandbox, SandboxGone
from corral.store.journal import Step

from .job import Job, as_text
from .progress import Progress, TurnProgress
from .prompt import system_prompt
from .tooling import SHOWN_LIMIT, ToolCall, ToolOutcome, ToolSpec

_TEXT_SHOWN = 400
_SETUP_TIMEOUT = 1800
"""Seconds."""


@dataclass(frozen=True)
class Surroundings:
    """What a conversation needs from outside, opened when it first needs it."""

    gateway: Gateway
    route: Route
    tools: Mapping[str, ToolSpec[Any]]
    create_sandbox: Callable[[], Awaitable[dict[str, Any]]]
    """Make the run's sandbox, or find it; what `steps` shows of it."""
    sandbox: Callable[[], Awaitable[Sandbox]]
    """The run's sandbox. Raises SandboxGone."""
    secrets: Mapping[str, bytes]


class Conversation:
    """One run's dialogue, driven on an execution."""

    def __init__(self, execution: Execution, job: Job, surroundings: Surroundings, progress: Progress) -> None:
        self._execution, self._job, self._around, self._progress = execution, job, surroundings, progress
        self._system = system_prompt(job.system, job.working_dir)
        self._tools = [tool.declaration() for tool in surroundings.tools.values()]
        self._messages: list[Message] = []
        self._measured: tuple[int, int] | None = None

    async def run(self) -> Ending:
        """Answer the first prompt, and each message after it if the run is kept alive. Raises what steps raise."""
        await self._open_sandbox()
        if self._job.setup and (failed := await self._set_up()):
            return failed
        number, prompt, key = 1, self._job.prompt, "input"
        while True:
            ending = await self._turn(number, key, as_text(prompt))
            if ending is not None or not self._job.keep_alive:
                return ending or Ending("succeeded")
            number += 1
            message = await self._execution.receive(f"turn-{number}.message")
            prompt, key = message.payload, message.key

    async def _open_sandbox(self) -> None:
        async def create() -> Result:
            return Result({"id": self._execution.id}, detail=await self._around.create_sandbox())

        step = await self._execution.step("sandbox", "sandbox", create, effect="idempotent")
        self._progress.sandbox = str(step.detail.get("sandbox", ""))

    async def _set_up(self) -> Ending | None:
        """Run the agent's setup, once; an Ending if it fails."""
        shell = self._around.tools["shell"]
        arguments = {"command": self._job.setup, "timeout_seconds": _SETUP_TIMEOUT}

        async def act() -> Result:
            outcome = await self._run_tool(shell, "setup", shell.name, arguments)
            return Result({"text": outcome.text, "exitCode": outcome.detail.get("exitCode")}, detail=outcome.detail)

        step = await self._execution.step(
            "setup",
            "setup",
            act,
            effect=shell.effect,
            interrupted=shell.interrupted,
            detail={"tool": shell.name, **shell.shown(arguments)},
        )
        if step.output["exitCode"] == 0:
            return None
        return Ending(
            "failed", "SetupFailed", f"the agent's setup failed: {text.clip(step.output['text'], _TEXT_SHOWN)}"
        )

    async def _turn(self, number: int, key: str, prompt: str) -> Ending | None:
        """One prompt to its answer; an Ending only if the run must end without one."""
        self._progress.turns.append(TurnProgress(key, self._job.model.id))
        self._messages.append({"role": "user", "content": [{"type": "text", "text": prompt}]})
        calls = 0
        for call in range(1, self._job.max_tool_calls + 3):
            reply = await self._model(f"turn-{number}.model-{call}")
            self._messages.append({"role": "assistant", "content": reply["content"]})
            wanted = [block for block in reply["content"] if block["type"] == "tool_use"]
            if not wanted:
                return _ended(reply["stop"], _text(reply["content"]))
            if calls >= self._job.max_tool_calls:
                break
            results = []
            for index, block in enumerate(wanted, 1):
                calls += 1
                if calls > self._job.max_tool_calls:
                    results.append(_result(block, self._over_limit()))
                    continue
                results.append(_result(block, await self._tool(f"turn-{number}.tool-{call}.{index}", block)))
            self._messages.append({"role": "user", "content": results})
        message = f"the model asked for more than {self._job.max_tool_calls} tool calls in one turn and did not answer"
        return Ending("failed", "MaxToolCallsReached", message)

    def _over_limit(self) -> ToolOutcome:
        limit = self._job.max_tool_calls
        return ToolOutcome(
            f"Not run: a turn has at most {limit} tool calls. Answer now with what you know.", error=True
        )

    async def _model(self, key: str) -> dict[str, Any]:
        request = Request(self._job.model.id, self._system, list(self._messages), self._tools, self._job.max_tokens)
        model = self._job.model
        reserve = 0 if model.own else largest(request, model.price, self._measured)[0]
        tries: list[dict[str, Any]] = []

        async def act() -> Result:
            try:
                reply = await retry.attempt(self._send(request), report=_recorder(tries))
            except Uncertain as error:
                raise OutcomeUnknown(str(error)) from error
            except CallError as error:
                reason = "ModelUnavailable" if error.retryable else "ModelRejected"
                if error.type == CONTEXT_TOO_LONG:
                    reason = "ContextOverflow"
                raise StepFailed(reason, f"{self._job.model.id}: {error}") from error
            cost = reserve if reply.usage is None else self._job.model.price.cost(reply.usage)
            self._progress.count(reply.usage, cost)
            if not any(block["type"] == "tool_use" for block in reply.content):
                self._progress.answer = _text(reply.content)
            return Result(_recorded(reply), cost, self._detail(reply))

        before = self._progress.turns[-1].model_calls
        step = await self._execution.step(
            key,
            "model",
            act,
            effect="idempotent" if model.free else "external",
            interrupted="again" if model.free else "park" if model.own else "charge",
            reserve=reserve,
            detail={"model": model.id, "local": model.id.startswith("local/")},
            tries=tries,
        )
        self._learn(step, replayed=self._progress.turns[-1].model_calls == before)
        return dict(step.output)

    def _learn(self, step: Step, *, replayed: bool) -> None:
        usage = Usage(**step.output["usage"]) if step.output["usage"] else None
        if replayed:
            self._progress.count(usage, step.cost)
            if not any(block["type"] == "tool_use" for block in step.output["content"]):
                self._progress.answer = _text(step.output["content"])
        # The provider has counted these messages and its reply, so the next call is bounded by what is added to them.
        self._measured = (len(self._messages) + 1, usage.prompt + usage.output) if usage else None

    def _send(self, request: Request) -> Callable[[], Awaitable[Reply]]:
        async def send() -> Reply:
            async with self._around.gateway.slot(self._around.route):
                return await self._around.gateway.call(self._around.route, request)

        return send

    def _detail(self, reply: Reply) -> dict[str, Any]:
        shown = _text(reply.content)
        return {
            "inputTokens": reply.usage.prompt if reply.usage else None,
            "outputTokens": reply.usage.output if reply.usage else None,
            "stop": reply.stop,
            "text": shown if len(shown) <= _TEXT_SHOWN else shown[:_TEXT_SHOWN] + "...",
        }

    async def _tool(self, key: str, block: Block) -> ToolOutcome:
        tool = self._around.tools.get(block["name"])
        arguments = block["input"]

        async def act() -> Result:
            self._progress.turns[-1].tool_calls += 1
            outcome = await self._run_tool(tool, key, block["name"], arguments)
            detail = outcome.detail | ({"error": text.clip(outcome.text, SHOWN_LIMIT)} if outcome.error else {})
            return Result({"text": outcome.text, "error": outcome.error}, detail=detail)

        before = self._progress.turns[-1].tool_calls
        shown = tool.shown(arguments) if tool is not None and isinstance(arguments, dict) else {}
        step = await self._execution.step(
            key,
            "tool",
            act,
            effect=tool.effect if tool else "pure",
            interrupted=tool.interrupted if tool else "again",
            detail={"tool": block["name"], **shown},
        )
        if self._progress.turns[-1].tool_calls == before:
            self._progress.turns[-1].tool_calls += 1
        return ToolOutcome(step.output["text"], step.output["error"])

    async def _run_tool(self, tool: ToolSpec[Any] | None, key: str, name: str, arguments: Any) -> ToolOutcome:
        if tool is None:
            known = ", ".join(self._around.tools)
            return ToolOutcome(f"There is no tool {name!r}; the tools are {known}.", error=True)
        if isinstance(arguments, dict) and MALFORMED in arguments:
            return ToolOutcome("The call was not run: its arguments are not valid JSON.", error=True)
        try:
            sandbox = await self._around.sandbox()
            return await tool.run(ToolCall(sandbox, _command_id(key), self._around.secrets), arguments)
        except SandboxGone as error:
            raise OutcomeUnknown(f"its sandbox is gone ({error})") from error


def _command_id(key: str) -> str:
    """The step's key in the alphabet of command ids: the same step always means the same command."""
    return key.replace(".", "_")


def _ended(stop: str, answer: str) -> Ending | None:
    if stop == "refusal":
        return Ending("failed", "ModelRefused", f"the model refused: {answer[:_TEXT_SHOWN]}")
    if stop == "context":
        return Ending("failed", "ContextOverflow", "the conversation does not fit into the model's context any more")
    return None


def _text(content: list[Block]) -> str:
    return "".join(block["text"] for block in content if block["type"] == "text")


def _result(block: Block, outcome: ToolOutcome) -> Block:
    result: Block = {
        "type": "tool_result",
        "tool_use_id": block["id"],
        "content": [{"type": "text", "text": outcome.text or "(no output)"}],
    }
    return result | ({"is_error": True} if outcome.error else {})


def _recorded(reply: Reply) -> dict[str, Any]:
    return {
        "content": reply.content,
        "stop": reply.stop,
        "usage": asdict(reply.usage) if reply.usage else None,
        "model": reply.model,
        "requestId": reply.request_id,
    }


def _recorder(tries: list[dict[str, Any]]) -> Callable[[retry.Attempt], Awaitable[None]]:
    async def record(attempt: retry.Attempt) -> None:
        # What may have been billed is recorded where it is charged.
        if attempt.error is not None and not attempt.error.billed:
            tries.append(
                {
                    "outcome": attempt.error.kind,
                    "status": attempt.error.status,
                    "error": str(attempt.error)[:_TEXT_SHOWN],
                    "at": clock.rfc3339(clock.now()),
                    "waitSeconds": attempt.wait,
                }
            )

    return record
