"""How long a sandbox and a command in it take, beside a plain subprocess and a bwrap for one command.

Rounds are interleaved, so that all of them see the same load, and what is judged are ratios of medians.
Usage: python benchmarks/sandbox.py [ROUNDS]
"""

import asyncio
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from corral.sandboxes import Driver, DriverSettings, Limits, Sandbox, SandboxSpec, bubblewrap, seccomp, system
from corral.sandboxes.drivers import bwrap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COMMAND_TARGET = 1.0
"""A command in a running sandbox takes no longer than a bwrap for one command."""
CREATE_TARGET = 4.0
"""A sandbox takes at most so many times as long as a bwrap for one command."""
LIMITS = Limits(memory=256 << 20, tmp=1 << 20, shm=1 << 20)


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("filter")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class Subjects:
    """What is measured."""

    def __init__(self, driver: Driver, home: Path) -> None:
        self._driver = driver
        self._etc = system.copy_etc(home / ".system")
        self._bwrap = str(next(bubblewrap.candidates("")).path)
        self._number = 0
        self.sandbox: Sandbox | None = None

    async def subprocess(self) -> None:
        process = await asyncio.create_subprocess_exec(
            "/bin/true",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await process.communicate()

    async def bwrap(self) -> None:
        """All namespaces and the same system call filter."""
        filter_fd = _memory_file(seccomp.program(platform.machine()))
        try:
            options = (
                "--unshare-all --unshare-user --disable-userns --uid 1000 --gid 1000 --cap-drop ALL --new-session "
            )
            options += (
                f"--clearenv --proc /proc --dev /dev --tmpfs /tmp --seccomp {filter_fd} --ro-bind {self._etc} /etc"
            )
            process = await asyncio.create_subprocess_exec(
                *(self._bwrap, *options.split(), *system.binds(), "/bin/true"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=[filter_fd],
            )
            _, said = await process.communicate()
            if process.returncode:
                raise RuntimeError(f"bwrap failed: {said.decode()}")
        finally:
            os.close(filter_fd)

    async def command(self) -> None:
        assert self.sandbox is not None
        self._number += 1
        await self.sandbox.start(f"c{self._number}", ["/bin/true"])
        if (await self.sandbox.follow(f"c{self._number}")).exit_code:
            raise RuntimeError("the command failed")

    async def create(self) -> None:
        self._number += 1
        await self._driver.create(SandboxSpec(id=f"created-{self._number}", limits=LIMITS))

    async def clean(self) -> None:
        """End what `create` made, outside of the measurement."""
        await self._driver.destroy(f"created-{self._number}")


async def measure(rounds: int, home: Path) -> dict[str, list[float]]:
    """Milliseconds of each round by subject."""
    driver = bwrap.create_driver(DriverSettings(directory=str(home)))
    probe = await driver.probe()
    print(probe.detail)
    subjects = Subjects(driver, home)
    subjects.sandbox = await driver.create(SandboxSpec(id="commands", limits=LIMITS))
    runs: dict[str, Callable[[], Awaitable[None]]] = {
        "plain subprocess": subjects.subprocess,
        "bwrap for one command": subjects.bwrap,
        "command in a sandbox": subjects.command,
        "create a sandbox": subjects.create,
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    try:
        for number in range(rounds + 3):
            for name, run in runs.items():
                start = time.perf_counter()
                await run()
                if number >= 3:  # the first ones fill caches
                    times[name].append((time.perf_counter() - start) * 1000)
            await subjects.clean()
    finally:
        for name in [name async for name in driver.list()]:
            await driver.destroy(name)
    return times


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    home = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    try:
        times = asyncio.run(measure(rounds, home / "home"))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{rounds} rounds, milliseconds\n{'':24}{'min':>8}{'median':>8}{'p95':>8}")
    for name, values in times.items():
        p95 = sorted(values)[int(len(values) * 0.95)]
        print(f"{name:24}{min(values):8.1f}{medians[name]:8.1f}{p95:8.1f}")
    one_shot = medians["bwrap for one command"]
    command, create = medians["command in a sandbox"] / one_shot, medians["create a sandbox"] / one_shot
    met = command <= COMMAND_TARGET and create <= CREATE_TARGET
    print(
        f"RESULT command_ms={medians['command in a sandbox']:.2f} create_ms={medians['create a sandbox']:.2f} "
        f"command_per_bwrap={command:.2f} create_per_bwrap={create:.2f} "
        f"command_per_subprocess={medians['command in a sandbox'] / medians['plain subprocess']:.2f} "
        f"targets=command<={COMMAND_TARGET},create<={CREATE_TARGET} met={'yes' if met else 'no'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
