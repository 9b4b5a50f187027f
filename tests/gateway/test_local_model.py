"""The real 0.5B model does the job it is there for. The weights are kept between runs in $CORRAL_TEST_MODELS/models."""

import os
import select
import sys
from pathlib import Path

import anyio
import pytest

from corral.gateway.call import ProviderSettings, Request, Tool
from corral.gateway.local import engine, pins, weights
from corral.gateway.providers import local

pytestmark = pytest.mark.model

TOOLS = [
    Tool("shell", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}}),
    Tool("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),
]
SYSTEM = "You are a helpful agent with a sandbox. Use the tools to do what the user asks, then say what you found."
PROMPT = "Use the shell to print the Python version, then tell me which one it is."


@pytest.fixture(scope="module")
def home():
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "corral-test")
    return Path(os.environ.get("CORRAL_TEST_MODELS") or default)


@pytest.fixture
async def provider(home):
    made = local.create_provider(ProviderSettings(home=str(home)))
    await made.prepare("small")
    yield made
    await made.aclose()


async def test_main_job(provider):
    messages = [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    said = []

    async def on_delta(piece):
        said.append(piece)

    first = await provider.call(Request("small", SYSTEM, messages, TOOLS, 1024), on_delta)
    assert first.stop == "tool_use"
    use = first.content[0]
    assert use["name"] == "shell"
    assert "python" in use["input"]["command"]
    assert first.usage.cache_read > first.usage.input, "prepare has evaluated the examples"
    assert said == []

    # A version that the model cannot know from anywhere but this result.
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "exit code 0\nPython 3.11.27\n"}
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = await provider.call(Request("small", SYSTEM, messages, TOOLS, 1024), on_delta)
    assert second.stop == "end_turn"
    assert "3.11.27" in second.content[0]["text"]
    assert "".join(said).strip() == second.content[0]["text"]


async def test_cancelling_while_the_prompt_is_evaluated(home):
    worker = await engine.start(await weights.pull(pins.SMALL, home))
    try:
        with anyio.CancelScope() as scope:
            await worker.generate("a b c " * 600, "", 9, on_prompt=lambda done, _: scope.cancel() if done else None)
        assert scope.cancelled_caught
        assert worker.alive, "it stopped after the batch it was at"
        assert (await worker.generate("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "", 3)).output == 3
    finally:
        await worker.aclose()


async def test_the_engine_ends_with_a_killed_platform(home):
    path = await weights.pull(pins.SMALL, home)
    code = (
        "import anyio; from pathlib import Path; from corral.gateway.local import engine\n"
        "async def main():\n"
        f"    worker = await engine.start(Path({str(path)!r}))\n"
        "    await worker.generate('a b c ' * 600, '', 9, on_prompt=lambda *_: print(worker.pid, flush=True))\n"
        "anyio.run(main)\n"
    )
    async with await anyio.open_process([sys.executable, "-c", code]) as platform:
        with anyio.fail_after(60):
            handle = os.pidfd_open(int((await platform.stdout.receive()).split()[0]))
            platform.kill()
            ended, _, _ = await anyio.to_thread.run_sync(select.select, [handle], [], [], 30)
            os.close(handle)
    assert ended, "the worker outlived the platform"
