"""The built-in small model, run on this machine's processor: free, private, and weak. One call at a time.

It does tasks of one or two shell commands; its answers must be checked. It is never a substitute for a model that was
asked for. The weights are fetched when they are first needed, and the worker process starts with the first call.
"""

import logging
from pathlib import Path

import anyio
from anyio import to_thread

from corral.gateway.call import (
    FREE,
    CallError,
    NotSent,
    OnDelta,
    Price,
    Provider,
    ProviderSettings,
    Rejected,
    Reply,
    Request,
    Usage,
)
from corral.gateway.local import engine, protocol, weights
from corral.gateway.local.pins import ALIASES, MODELS
from corral.gateway.local.transfer import Progress, WeightsUnavailable, silent

CHOSEN = "default"
"""The model id that stands for whichever pinned model suits this machine."""

_GGUF = b"GGUF"
_CHAT_TOKENS = 512
_ATTEMPTS = 3
_log = logging.getLogger(__name__)


def create_provider(settings: ProviderSettings) -> Provider:
    """The provider; `settings.home` is where weights are kept. Raises ValueError without it."""
    if not settings.home:
        raise ValueError("home: the local provider keeps model weights and needs a folder; set CORRAL_HOME")
    return LocalProvider(Path(settings.home))


class WorkerEnded(NotSent):
    """The worker died in a call. Nothing was billed and nothing happened outside, so the call can be made again."""


class _TooLong(Rejected):
    """The prompt does not fit the context."""


class LocalProvider:
    """Runs the pinned models, or any GGUF file by its path, in one worker process."""

    name = "local"

    def __init__(self, home: Path) -> None:
        self._home = home
        self._turn = anyio.Lock()
        self._worker: engine.Worker | None = None
        self._deaths = 0

    def price(self, model: str) -> Price | None:
        """Free, whatever the model."""
        return FREE

    async def prepare(self, model: str = CHOSEN, progress: Progress = silent) -> None:
        """Do now what the first call would wait for: fetch the weights, start the worker, evaluate the examples.

        `progress` gets the stages of `weights.pull`, then load and warm. Raises a CallError, as `call` does.
        """
        async with self._turn:
            path = await self._file(model, progress)
            progress("load", 0, 1, path.name)
            examples = protocol.Step(protocol.PREFIX, "")
            await self._generate(
                path, examples, 1, on_prompt=lambda done, total: progress("warm", done, total, path.name)
            )

    async def call(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply: a command for the shell tool, or the answer. Raises Rejected or WorkerEnded."""
        async with self._turn:
            path = await self._file(request.model, silent)
            limit = protocol.CONVERSATION_CHARS
            for _ in range(_ATTEMPTS):
                step = protocol.plan(request, limit)
                try:
                    return await self._reply(path, step, request.max_tokens, on_delta)
                except _TooLong:
                    limit //= 2  # more tokens than its characters let expect: show less of the conversation
            raise Rejected("the conversation does not fit the local model; use a hosted model")

    async def aclose(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker:
            await worker.aclose()

    async def _reply(self, path: Path, step: protocol.Step, max_tokens: int, on_delta: OnDelta | None) -> Reply:
        limit = min(max_tokens, protocol.MAX_TOKENS if step.tool else _CHAT_TOKENS)
        made = await self._generate(path, step, limit, on_delta)
        usage = _usage(made)
        if protocol.command_of(made.text) in step.ran:  # nothing new would come of running it again
            step = step.answering()
            made = await self._generate(path, step, limit, on_delta)
            usage = _sum(usage, _usage(made))
        content, stop = protocol.content(step, made.text, made.finish)
        return Reply(content, stop, usage, path.stem)

    async def _generate(
        self,
        path: Path,
        step: protocol.Step,
        max_tokens: int,
        on_delta: OnDelta | None = None,
        on_prompt: engine.OnPrompt | None = None,
    ) -> engine.Generated:
        stream = protocol.AnswerStream(step)

        async def on_text(piece: str) -> None:
            if on_delta and (part := stream.feed(piece)):
                await on_delta(part)

        try:
            worker = await self._started(path)
            prompt = protocol.chatml(step.turns) if self._pinned(path) else protocol.chat(step.turns)
            made = await worker.generate(prompt, step.grammar, max_tokens, on_text, on_prompt)
        except engine.EngineMissing as error:
            raise Rejected("the local model's engine is not installed; run: pip install 'corral[local]'") from error
        except engine.EngineRefused as error:
            refusal = _TooLong if error.context else Rejected
            raise refusal(f"the local model's engine refused the call: {error}") from error
        except engine.WorkerDied as error:
            raise await self._mourn(path, error) from error
        self._deaths = 0
        return made

    async def _started(self, path: Path) -> engine.Worker:
        if self._worker and not (self._worker.alive and self._worker.model == path):
            await self.aclose()
        if self._worker is None:
            self._worker = await engine.start(path)
        return self._worker

    async def _mourn(self, path: Path, death: engine.WorkerDied) -> CallError:
        await self.aclose()
        self._deaths += 1
        text = f"the local model's worker ended ({death})"
        _log.warning("%s, %d in a row, with %s", text, self._deaths, path)
        if self._deaths < 2:
            return WorkerEnded(text)
        return Rejected(f"{text}, {self._deaths} times in a row: {_cause(death, path)}")

    async def _file(self, model: str, progress: Progress) -> Path:
        name = await to_thread.run_sync(weights.choose, self._home) if model in ("", CHOSEN) else model
        if name.endswith(".gguf"):
            return await to_thread.run_sync(_own_file, name)
        try:
            return await weights.pull(weights.find(name), self._home, progress)
        except LookupError:
            known = ", ".join([CHOSEN, *ALIASES, *MODELS])
            raise Rejected(
                f"model: {name!r} is not a local model; write {known}, or the path of a .gguf file"
            ) from None
        except WeightsUnavailable as error:
            raise Rejected(f"{error}. To fix it: {error.fix}") from error

    def _pinned(self, path: Path) -> bool:
        return path.parent == self._home / "models" and path.stem in MODELS


def _own_file(name: str) -> Path:
    path = Path(name)
    try:
        with path.open("rb") as file:
            good = file.read(len(_GGUF)) == _GGUF
    except OSError as error:
        raise Rejected(f"model: {name} cannot be read: {error.strerror}") from error
    if not (good and path.is_absolute()):
        raise Rejected(f"model: {name} is not a GGUF file; write the absolute path of one")
    return path


def _cause(death: engine.WorkerDied, path: Path) -> str:
    match death.signal:
        case 4:
            return "this processor lacks an instruction that the engine uses (AVX2 on x86-64); use a hosted model"
        case 9:
            return "it was killed, most likely because memory ran out; free some, use the model 'small' or a hosted one"
        case 7:
            return f"the file could not be read to its end; delete {path} to have it fetched again, and check the disk"
    return "use a hosted model, and report this with the engine's version"


def _usage(made: engine.Generated) -> Usage:
    return Usage(input=made.prompt - made.cached, cache_read=made.cached, output=made.output)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input=one.input + other.input, cache_read=one.cache_read + other.cache_read, output=one.output + other.output
    )
