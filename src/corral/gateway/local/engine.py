"""The platform's side of the worker process: start it, ask it for one generation at a time, stop it.

A worker belongs to one model file. Cancelling a generation asks the worker to stop and waits a moment for it; a worker
that does not stop is killed, and the next call starts another.
"""

import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import anyio
from anyio import to_thread
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

CONTEXT = 4096
"""Tokens of prompt and reply together; evaluating more takes a small machine longer than anybody waits."""

OnText = Callable[[str], Awaitable[None]]
OnPrompt = Callable[[int, int], None]
"""Called with (prompt tokens evaluated, prompt tokens in all)."""

_MAX_THREADS = 8  # a model of this size gains nothing from more
_LINE_LIMIT = 1 << 20
_STOP_SECONDS = 5.0
# OpenMP's threads would spin at their barriers and starve everything else; it reads these when it is loaded.
_QUIET_OPENMP = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")


class EngineMissing(Exception):
    """The engine's Python package is not installed."""


class EngineRefused(Exception):
    """The engine is well, and will not do this. `context`: because the prompt does not fit."""

    def __init__(self, message: str, *, context: bool = False) -> None:
        super().__init__(message)
        self.context = context


class WorkerDied(Exception):
    """The worker process ended on its own. `signal` is 0 when it was not ended by one."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


@dataclass(frozen=True)
class Generated:
    """One generation. `finish` is stop or length; `prompt` counts all its tokens, `cached` those known from before."""

    text: str
    finish: str
    prompt: int
    cached: int
    output: int


async def start(model: Path) -> "Worker":
    """A worker with the model loaded. Raises EngineMissing, EngineRefused (a file it cannot load) or WorkerDied."""
    threads = min(len(os.sched_getaffinity(0)), _MAX_THREADS)
    argv = [sys.executable, "-P", "-m", "corral.gateway.local.worker", str(model), str(threads), str(CONTEXT)]
    log = TemporaryFile()  # noqa: SIM115 - the worker closes it
    try:
        process = await anyio.open_process(argv, stderr=log, env=_environment())
    except BaseException:
        log.close()
        raise
    worker = Worker(model, process, log)
    try:
        first = await worker.receive()
    except BaseException:
        await worker.aclose()
        raise
    if first["event"] == "ready":
        return worker
    await worker.aclose()
    if first["type"] == "missing":
        raise EngineMissing(first["message"])
    raise EngineRefused(f"{model} cannot be loaded: {first['message']}")


def _environment() -> dict[str, str]:
    # Native code with a file from elsewhere has no business with the platform's keys, so it gets only what it needs.
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _QUIET_OPENMP


class Worker:
    """A running worker process. Not for two calls at once."""

    def __init__(self, model: Path, process: Process, log: IO[bytes]) -> None:
        self.model = model
        self._process, self._log = process, log
        assert process.stdout is not None
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._calls = 0

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def generate(
        self,
        prompt: str | list[dict[str, str]],
        grammar: str,
        max_tokens: int,
        on_text: OnText | None = None,
        on_prompt: OnPrompt | None = None,
    ) -> Generated:
        """One generation from a raw prompt, or from chat messages by the model's own template.

        Raises EngineRefused or WorkerDied. When it is cancelled, the worker is idle again or killed.
        """
        self._calls += 1
        source = {"prompt": prompt} if isinstance(prompt, str) else {"messages": prompt}
        try:
            await self._send(
                {"op": "complete", "id": self._calls, "grammar": grammar, "max_tokens": max_tokens, **source}
            )
            return await self._collect(on_text, on_prompt)
        except (EngineRefused, WorkerDied):
            raise
        except BaseException:
            await self._stop_call()
            raise

    async def _collect(self, on_text: OnText | None, on_prompt: OnPrompt | None) -> Generated:
        pieces: list[str] = []
        while True:
            event = await self.receive()
            match event["event"]:
                case "text":
                    pieces.append(event["text"])
                    if on_text:
                        await on_text(event["text"])
                case "progress":
                    if on_prompt:
                        on_prompt(event["done"], event["total"])
                case "done":
                    return Generated(
                        "".join(pieces), event["finish"], event["prompt"], event["cached"], event["output"]
                    )
                case "failed":
                    raise EngineRefused(event["message"], context=event["type"] == "context")

    async def receive(self) -> dict[str, Any]:
        """The worker's next event. Raises WorkerDied when there is none."""
        try:
            line = await self._lines.receive_until(b"\n", _LINE_LIMIT)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise await self._death() from None
        event: dict[str, Any] = json.loads(line)
        return event

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(json.dumps(message).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise await self._death() from None

    async def _stop_call(self) -> None:
        with anyio.move_on_after(_STOP_SECONDS, shield=True):
            try:
                await self._send({"op": "cancel", "id": self._calls})
                while (await self.receive())["event"] not in ("done", "cancelled", "failed"):
                    pass
                return
            except WorkerDied:
                return
        await self.aclose()

    async def _death(self) -> WorkerDied:
        # It has closed its output, so it is ending. To kill it now could lose its exit code, which says why.
        with anyio.move_on_after(_STOP_SECONDS):
            await self._process.wait()
        if self.alive:
            self._process.kill()
        code = await self._process.wait()
        said = await to_thread.run_sync(self._tail)
        if code < 0:
            return WorkerDied(f"signal {-code}, {signal.strsignal(-code)}", -code)
        return WorkerDied(f"exit code {code}" + (f": {said}" if said else ""), 0)

    def _tail(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    async def aclose(self) -> None:
        """End the process, at once, and free what belongs to it."""
        with anyio.CancelScope(shield=True):
            if self.alive:
                self._process.kill()
            await self._process.aclose()
            self._log.close()
