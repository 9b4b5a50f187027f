"""The worker process and the provider around it: real processes, with a stand-in for the engine's package."""

import hashlib
import os
import select
import signal
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

import corral
from corral.gateway.call import FREE, ProviderSettings, Rejected, Request, Tool
from corral.gateway.local import engine, pins, weights
from corral.gateway.providers import local

# It obeys words in the prompt; `Server.calls` shows that it is one process that answers.
STAND_IN = """
import os, signal, sys, time
from types import SimpleNamespace

print("native code writes where it likes")

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = SimpleNamespace(), SimpleNamespace(), SimpleNamespace()

class Server:
    calls = 0

    def __init__(self, params):
        text = open(params.model.path).read()
        if "broken" in text:
            raise RuntimeError("no such tensor")
        if "illegal" in text:
            os.kill(os.getpid(), signal.SIGILL)
        assert params.cpuparams.poll == 0 and os.environ["OMP_WAIT_POLICY"] == "passive"
        assert os.path.dirname(params.hostnames[0]) and params.api_keys

    def handle_completions(self, body, take):
        return self._run(body, body["prompt"].rsplit("<|im_start|>user\\n", 1)[-1], take)

    def handle_chat_completions(self, body, take):
        return self._run(body, body["messages"][-1]["content"], take)

    def _run(self, body, prompt, take):
        Server.calls += 1
        if "DIE" in prompt:
            os.kill(os.getpid(), signal.SIGKILL)
        if "EXIT" in prompt:
            print("assertion failed: n > 0", file=sys.stderr, flush=True)
            os._exit(3)
        if "ENDLESS" in prompt:
            while not take({"choices": [{"text": "x"}]}):
                time.sleep(0.01)
            return None
        if "STUCK" in prompt:
            take({"choices": [{"text": "x"}]})
            time.sleep(3600)
        if "LONG" in prompt and len(prompt) > 900:
            return {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}}
        if "REFUSE" in prompt:
            return {"error": {"code": 400, "message": "bad grammar", "type": "invalid_request_error"}}
        take({"prompt_progress": {"total": 7, "processed": 7, "cache": 3}})
        command = "cmd" in body.get("grammar", "").split("\\n")[0]
        text = "```bash\\nls\\n```" if command else f"Answer: call {Server.calls}"
        for piece in (text[:9], text[9:]):
            take({"choices": [{"text": piece}]})
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
        take({"choices": [{"text": "", "finish_reason": "stop"}], "usage": usage})

"""
SHELL = Tool("shell", "", {"type": "object", "properties": {"command": {"type": "string"}}})
SOURCE = str(Path(corral.__file__).parents[1])


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a verified `small` model that only the stand-in can load."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "xllamacpp.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), SOURCE]))
    data = b"GGUF weights"
    model = replace(pins.SMALL, size=len(data), sha256=hashlib.sha256(data).hexdigest())
    monkeypatch.setitem(pins.MODELS, model.name, model)
    path = weights.path_of(model, tmp_path)
    path.parent.mkdir()
    path.write_bytes(data)
    return tmp_path


@pytest.fixture
async def provider(home):
    made = local.create_provider(ProviderSettings(home=str(home)))
    yield made
    await made.aclose()


@pytest.fixture
async def worker(home):
    started = await engine.start(home / "models" / "qwen2.5-coder-0.5b.gguf")
    yield started
    await started.aclose()


def ask(prompt, *steps, model="small", tools=(SHELL,)):
    messages = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    for number, (command, result) in enumerate(steps):
        use = {"type": "tool_use", "id": str(number), "name": "shell", "input": {"command": command}}
        back = {"type": "tool_result", "tool_use_id": str(number), "content": result}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]
    return Request(model, "", messages, list(tools), 256)


def pid_of(provider):
    return provider._worker.pid


async def test_a_command_then_the_answer(provider):
    first = await provider.call(ask("List."))
    assert (first.stop, first.model) == ("tool_use", "qwen2.5-coder-0.5b")
    assert first.content[0]["input"] == {"command": "ls"}
    assert (first.usage.input, first.usage.cache_read, first.usage.output) == (4, 3, 2)
    assert provider.price("small") == FREE
    pieces = []

    async def on_delta(piece):
        pieces.append(piece)

    # The stand-in wants to run `ls` again, so the provider has it answer instead, in the same call.
    second = await provider.call(ask("List.", ("ls", "exit code 0\na")), on_delta)
    assert (second.stop, second.content) == ("end_turn", [{"type": "text", "text": "call 3"}])
    assert second.usage.output == 4
    assert "".join(pieces) == "call 3"


async def test_prepare_leaves_a_worker_ready(provider):
    seen = []
    await provider.prepare("small", lambda stage, done, total, source: seen.append((stage, done, total)))
    assert seen == [("verify", 0, 12), ("verify", 12, 12), ("load", 0, 1), ("warm", 7, 7)]
    pid = pid_of(provider)
    assert (await provider.call(ask("Hi", tools=()))).content[0]["text"] == "Answer: call 2"
    assert pid_of(provider) == pid


async def test_calls_take_turns(provider):
    replies = []

    async def call():
        replies.append(await provider.call(ask("Hi", tools=())))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(call)
    assert sorted(reply.content[0]["text"] for reply in replies) == [f"Answer: call {n}" for n in (1, 2, 3)]


async def test_a_dead_worker_is_replaced_once_and_then_explained(provider):
    with pytest.raises(local.WorkerEnded, match=r"ended \(signal 9, Killed\)") as caught:
        await provider.call(ask("DIE"))
    assert (caught.value.retryable, caught.value.billed, caught.value.kind) == (True, False, "NotSent")
    with pytest.raises(Rejected, match="2 times in a row: it was killed, most likely because memory ran out"):
        await provider.call(ask("DIE"))
    assert (await provider.call(ask("List."))).stop == "tool_use"
    with pytest.raises(local.WorkerEnded):
        await provider.call(ask("DIE"))


async def test_a_death_between_calls_costs_no_call(provider):
    await provider.call(ask("List."))
    worker = provider._worker
    os.kill(worker.pid, signal.SIGKILL)
    with anyio.fail_after(10):
        await worker._process.wait()
    assert (await provider.call(ask("List."))).stop == "tool_use"
    assert provider._worker is not worker


async def test_an_illegal_instruction_while_loading_is_explained(provider, home):
    own = home / "own.gguf"
    own.write_bytes(b"GGUF illegal")
    with pytest.raises(local.WorkerEnded, match="signal 4"):
        await provider.call(ask("List.", model=str(own)))
    with pytest.raises(Rejected, match="this processor lacks an instruction"):
        await provider.call(ask("List.", model=str(own)))


async def test_the_engines_last_words_are_kept(worker):
    with pytest.raises(engine.WorkerDied, match="exit code 3: assertion failed: n > 0"):
        await worker.generate("EXIT", "", 9)


async def test_a_file_that_cannot_be_loaded_is_rejected(provider, home):
    own = home / "own.gguf"
    own.write_bytes(b"GGUF broken")
    with pytest.raises(Rejected, match="no such tensor"):
        await provider.call(ask("List.", model=str(own)))
    with pytest.raises(Rejected, match="no such tensor"):
        await provider.prepare(str(own))


async def test_own_files_use_the_models_template(provider, home):
    own = home / "own.gguf"
    own.write_bytes(b"GGUF good")
    reply = await provider.call(ask("List.", model=str(own)))
    assert (reply.stop, reply.model) == ("tool_use", "own")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gpt-9", "'gpt-9' is not a local model; write default, small, large, qwen2"),
        ("/nowhere/x.gguf", "cannot be read: No such file or directory"),
        ("/dev/null/x.gguf", "cannot be read: Not a directory"),
    ],
)
async def test_bad_model_names(provider, model, message):
    with pytest.raises(Rejected, match=message):
        await provider.call(ask("List.", model=model))


async def test_a_file_of_another_format_is_not_loaded(provider, home):
    (home / "zip.gguf").write_bytes(b"PK\3\4")
    with pytest.raises(Rejected, match="is not a GGUF file"):
        await provider.call(ask("List.", model=str(home / "zip.gguf")))


async def test_a_missing_engine_is_explained(provider, home):
    (home / "package" / "xllamacpp.py").write_text("raise ImportError('no module named xllamacpp')")
    with pytest.raises(Rejected, match=r"pip install 'corral\[local\]'"):
        await provider.call(ask("List."))


async def test_what_does_not_fit_is_shortened(provider):
    assert (await provider.call(ask("LONG " * 1000))).stop == "tool_use"
    with pytest.raises(Rejected, match="bad grammar"):
        await provider.call(ask("REFUSE"))


async def test_cancelling_stops_the_generation_and_keeps_the_worker(worker):
    seen = anyio.Event()

    async def on_text(_):
        seen.set()

    async def generate():
        await worker.generate("ENDLESS", "", 9, on_text)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(generate)
            await seen.wait()
            tasks.cancel_scope.cancel()
    assert worker.alive
    assert (await worker.generate("hello", "", 9)).text == "Answer: call 2"


async def test_cancelling_kills_a_worker_that_does_not_stop(worker, monkeypatch):
    monkeypatch.setattr(engine, "_STOP_SECONDS", 0.1)
    with anyio.CancelScope() as scope:

        async def on_text(_):
            scope.cancel()

        await worker.generate("STUCK", "", 9, on_text)
    assert scope.cancelled_caught
    assert not worker.alive


async def test_the_worker_gets_no_secrets(home, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    worker = await engine.start(home / "models" / "qwen2.5-coder-0.5b.gguf")
    try:
        environ = await anyio.Path(f"/proc/{worker.pid}/environ").read_bytes()
        assert b"sk-secret" not in environ
        assert b"OMP_WAIT_POLICY=passive" in environ
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
    finally:
        await worker.aclose()


@pytest.mark.parametrize("busy", [True, False])
async def test_the_worker_ends_with_a_killed_platform(home, busy):
    code = (
        "import anyio, sys; from pathlib import Path; from corral.gateway.local import engine\n"
        "async def main():\n"
        f"    worker = await engine.start(Path({str(home)!r}, 'models', 'qwen2.5-coder-0.5b.gguf'))\n"
        "    async def say(_): print(worker.pid, flush=True)\n"
        f"    await (worker.generate('STUCK', '', 9, say) if {busy} else say(''))\n"
        "    await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    async with await anyio.open_process([sys.executable, "-c", code]) as platform:
        with anyio.fail_after(30):
            pid = int(await platform.stdout.receive())
            platform.kill()
            await anyio.to_thread.run_sync(ended, pid)


def ended(pid):
    """Wait until the process has ended; it belongs to another parent, so its end is seen through a pidfd."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 10)[0], "the worker still runs"
    finally:
        os.close(handle)


def test_a_home_is_needed():
    with pytest.raises(ValueError, match=r"^home: .* set CORRAL_HOME$"):
        local.create_provider(ProviderSettings())
