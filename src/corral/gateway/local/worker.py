"""The process that runs the model, apart from the platform: a crash of native code ends only this process.

Run as `python -m corral.gateway.local.worker MODEL THREADS CONTEXT`. It reads JSON lines on standard input and writes
JSON lines on standard output; the engine's log goes to standard error. It ends when its standard input ends, so it
cannot outlive the platform, however that ended.

In:  {"op": "complete", "id", "prompt" or "messages", "grammar", "max_tokens"} and {"op": "cancel", "id"}.
Out: "ready", or "fatal" (type, message), once; then for each call any number of "progress" (prompt tokens done, total)
and "text" (a piece), and one of "done" (finish, prompt, cached, output), "cancelled" and "failed" (type, message).
"""

import contextlib
import json
import os
import queue
import secrets
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

# Small batches: a prompt can be cancelled, and reports its progress, after each.
_BATCH = 128


def main() -> None:
    """Serve one model until standard input ends."""
    model, threads, context = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    out = _claim_output()
    _be_modest()
    calls = Calls()
    threading.Thread(target=calls.read, args=(sys.stdin,), daemon=True).start()
    try:
        engine = load(model, threads, context)
    except ImportError as error:
        return _send(out, event="fatal", type="missing", message=str(error))
    except Exception as error:  # the engine's own errors have no common type
        return _send(out, event="fatal", type="load", message=str(error))
    _send(out, event="ready")
    while (call := calls.next()) is not None:
        Completion(engine, call, calls, out).run()


def load(model: str, threads: int, context: int) -> Any:
    """The engine with the model loaded."""
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx, params.n_parallel, params.n_batch = context, 1, _BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cpuparams.poll = params.cpuparams_batch.poll = 0  # never spin: the agents' commands need the cores
    params.warmup, params.ui, params.cache_ram_mib, params.verbosity = False, False, 0, 2
    # The engine always opens an HTTP listener. Nobody shall reach it: a socket in a private folder, gone at once.
    with tempfile.TemporaryDirectory(prefix="corral-engine-") as folder:
        params.hostnames, params.api_keys = [str(Path(folder, "engine.sock"))], [secrets.token_hex(32)]
        return xllamacpp.Server(params)


class Calls:
    """What the platform asks for, read by a thread so that a cancellation is seen while the engine works."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._cancelled: set[int] = set()

    def read(self, lines: TextIO) -> None:
        """Sort the lines until they end, which ends the process."""
        try:
            for line in lines:
                message = json.loads(line)
                if message["op"] == "cancel":
                    self._cancelled.add(message["id"])
                else:
                    self._waiting.put(message)
        finally:
            os._exit(0)  # the engine may be deep in a computation, and there is nothing to save

    def next(self) -> dict[str, Any] | None:
        """The next call; waits for one."""
        return self._waiting.get()

    def cancelled(self, call: int) -> bool:
        """Whether the platform gave this call up."""
        return call in self._cancelled


class Completion:
    """One generation, reported piece by piece."""

    def __init__(self, engine: Any, call: dict[str, Any], calls: Calls, out: TextIO) -> None:
        self._engine, self._call, self._calls, self._out = engine, call, calls, out
        self._id: int = call["id"]
        self._last: dict[str, Any] = {}

    def run(self) -> None:
        """Generate, and send the event that ends the call."""
        body = {
            "stream": True,
            "return_progress": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "cache_prompt": True,
            "max_tokens": self._call["max_tokens"],
        }
        if self._call.get("grammar"):
            body["grammar"] = self._call["grammar"]
        try:
            if "prompt" in self._call:
                returned = self._engine.handle_completions({**body, "prompt": self._call["prompt"]}, self._take)
            else:
                returned = self._engine.handle_chat_completions(
                    {**body, "messages": self._call["messages"]}, self._take
                )
        except Exception as error:  # the engine's own errors have no common type
            return self._failed({"message": str(error)})
        self._finish(returned)

    def _take(self, chunk: dict[str, Any]) -> bool:
        """A piece from the engine; True stops it."""
        if "error" in chunk:
            self._last["error"] = chunk["error"]
        if progress := chunk.get("prompt_progress"):
            _send(self._out, event="progress", id=self._id, done=progress["processed"], total=progress["total"])
        for choice in chunk.get("choices", []):
            piece = choice.get("text") or (choice.get("delta") or {}).get("content")
            if piece:
                _send(self._out, event="text", id=self._id, text=piece)
            if choice.get("finish_reason"):
                self._last["finish"] = choice["finish_reason"]
        if chunk.get("usage"):
            self._last["usage"] = chunk["usage"]
        return self._calls.cancelled(self._id)

    def _finish(self, returned: Any) -> None:
        error = returned.get("error") if isinstance(returned, dict) else None
        if error or self._last.get("error"):
            return self._failed(error or self._last["error"])
        if "finish" not in self._last:
            return _send(self._out, event="cancelled", id=self._id)
        usage = self._last.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        tokens = {
            "prompt": usage.get("prompt_tokens", 0),
            "cached": cached,
            "output": usage.get("completion_tokens", 0),
        }
        _send(self._out, event="done", id=self._id, finish=self._last["finish"], **tokens)

    def _failed(self, error: dict[str, Any]) -> None:
        kind = "context" if error.get("type") == "exceed_context_size_error" else "engine"
        _send(self._out, event="failed", id=self._id, type=kind, message=str(error.get("message", error)))


def _send(out: TextIO, **event: Any) -> None:
    out.write(json.dumps(event) + "\n")
    out.flush()


def _claim_output() -> TextIO:
    """The standard output for the protocol alone; whatever else writes to it goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _be_modest() -> None:
    """Give way to everything else: first to lose the processor, first to be killed when memory runs out."""
    os.nice(5)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


if __name__ == "__main__":
    main()
