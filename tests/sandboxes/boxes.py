"""How tests use sandboxes."""

import itertools
import os
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from corral.sandboxes import CommandResult, Limits, Sandbox

ROOT = os.geteuid() == 0
SMALL = Limits(tmp=16 << 20, shm=8 << 20, memory=512 << 20)
_numbers = itertools.count()


async def run(sandbox: Sandbox, *argv: str, **options: Any) -> CommandResult:
    """Run a command to its end."""
    command_id = f"run-{next(_numbers)}"
    assert await sandbox.start(command_id, argv, **options) == "started"
    with anyio.fail_after(60):
        return await sandbox.follow(command_id, keep=1 << 20)


async def sh(sandbox: Sandbox, script: str, **options: Any) -> str:
    """What a shell script prints on both streams, standard output first."""
    result = await run(sandbox, "/bin/sh", "-c", script, **options)
    return (result.stdout.head + result.stdout.tail + result.stderr.head + result.stderr.tail).decode()


async def python(sandbox: Sandbox, script: str) -> str:
    """What a Python script prints."""
    result = await run(sandbox, "python3", "-c", script)
    assert result.exit_code == 0, result.stderr.head.decode()
    return result.stdout.head.decode()


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    """Wait for a condition."""
    end = anyio.current_time() + seconds
    while not await holds():
        assert anyio.current_time() < end, f"did not come true in {seconds} s"
        await anyio.sleep(0.02)
