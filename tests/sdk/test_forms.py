"""The two forms of a call, and the thread behind them: loops, signals, forks, and the end of a program."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

import corral
from corral.sdk import _background
from corral.sdk._find import Server
from corral.sdk._forms import both, stream
from corral.sdk.errors import UsageError

SLOW = "[[fake:command=sleep 60]]"


class Counter:
    """What the SDK's classes do, with nothing behind it."""

    def __init__(self) -> None:
        self.begun, self.ended = anyio.Event(), 0

    @both
    async def double(self, number: int, *, times: int = 2) -> int:
        """A number, doubled."""
        if number < 0:
            raise ValueError("negative")
        return number * times

    @both
    async def for_ever(self) -> None:
        try:
            self.begun.set()
            await anyio.sleep_forever()
        finally:
            self.ended += 1

    @stream
    async def numbers(self, upto: int) -> AsyncGenerator[int]:
        """Numbers, and then a failure."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                group.cancel_scope.cancel()
            for number in range(upto):
                yield number
            raise ValueError("no more")
        finally:
            self.ended += 1

    @both
    async def nested(self) -> int:
        return self.double(1)


def test_a_call_waits_and_fails_as_what_it_calls() -> None:
    counter = Counter()
    assert counter.double(2, times=3) == 6
    with pytest.raises(ValueError, match="negative"):
        counter.double(-1)
    assert counter.double.__doc__ == Counter.double.__doc__ == "A number, doubled."
    assert str(inspect.signature(counter.double)) == "(number: int, *, times: int = 2) -> int"


async def test_the_other_form_does_not_block() -> None:
    counter = Counter()
    assert await asyncio.gather(counter.double.aio(1), counter.double.aio(2)) == [2, 4]
    with pytest.raises(ValueError, match="negative"):
        await counter.double.aio(-1)


async def test_cancellation_reaches_the_work() -> None:
    counter = Counter()
    task = asyncio.create_task(counter.for_ever.aio())
    with anyio.fail_after(10):
        while not counter.begun.is_set():
            await anyio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not counter.ended:
            await anyio.sleep(0.01)


def test_iterating_to_the_end_and_leaving_early() -> None:
    counter = Counter()
    found = []
    with pytest.raises(ValueError, match="no more"):
        for number in counter.numbers(3):
            found.append(number)
    assert (found, counter.ended) == ([0, 1, 2], 1)
    for number in counter.numbers(100):
        if number == 1:
            break
    assert counter.ended == 2


async def test_iterating_in_asyncio_code() -> None:
    counter = Counter()
    found = []
    with pytest.raises(ValueError, match="no more"):
        async for number in counter.numbers.aio(3):
            found.append(number)
    async with aclosing(counter.numbers.aio(100)) as numbers:
        assert await anext(numbers) == 0
    assert (found, counter.ended) == ([0, 1, 2], 2)


def test_a_call_on_the_thread_of_the_sdk_is_refused() -> None:
    with pytest.raises(UsageError, match="would wait for itself"):
        Counter().nested()


def test_a_new_thread_after_the_end() -> None:
    assert Counter().double(1) == 2
    _background.close()
    assert Counter().double(1) == 2


def test_a_forked_child_has_a_thread_of_its_own() -> None:
    assert Counter().double(1) == 2
    child = os.fork()
    if not child:
        os._exit(7 if Counter().double(2) == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def program(text: str, server: Server, tmp_path: Path) -> subprocess.Popen[str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", text],
        env={**kept, "CORRAL_URL": server.url, "CORRAL_KEY": server.key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_program_that_leaves_an_iteration_open_ends(server: Server, tmp_path: Path) -> None:
    text = f"""
import corral
run = corral.Agent("open-iteration").submit({SLOW!r})
events = run.follow()
print(next(events).type)
run.delete()
"""
    with program(text, server, tmp_path) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip() in ("run", "step")) == (0, True), err
    assert "Warning" not in err
    assert "Traceback" not in err


def test_ctrl_c_ends_the_call_and_cancels_its_run(server: Server, tmp_path: Path) -> None:
    text = f"""
import corral
try:
    corral.Agent("ctrl-c", client=corral.Client()).remote({SLOW!r})
except KeyboardInterrupt:
    print("interrupted")
"""
    client = corral.Client()
    with program(text, server, tmp_path) as process:
        sent = False
        for change in client.watch("AgentRun", fields="spec.agent=ctrl-c"):
            if change.object.status.phase == "Running" and not sent:
                process.send_signal(signal.SIGINT)
                sent = True
            if change.object.status.phase == "Cancelled":
                break
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "interrupted\n"), err
    assert "Traceback" not in err
