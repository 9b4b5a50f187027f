"""A sandbox whose commands and files are reached through its supervisor, whatever started it."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from anyio import to_thread

from . import files
from ._base import MIB, CommandResult, CommandState, Entry, OnOutput, SandboxError, SandboxGone
from .ids import check_id
from .outputs import Output
from .supervisor import Supervisor

BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/home/agent",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
_NAMES: dict[bytes, Literal["stdout", "stderr"]] = {b"o": "stdout", b"e": "stderr"}
_SUFFIX = {"stdout": "out", "stderr": "err"}
T = TypeVar("T")


class SupervisedSandbox:
    """`spool` is the directory on this host where the supervisor keeps output; commands never see it."""

    def __init__(
        self, sandbox_id: str, supervisor: Supervisor, spool: Path, working_dir: str, env: Mapping[str, str]
    ) -> None:
        self._id = sandbox_id
        self._supervisor = supervisor
        self._spool = spool
        self._working_dir = working_dir
        self._env = BASE_ENV | dict(env)

    @property
    def id(self) -> str:
        return self._id

    async def start(
        self,
        command_id: str,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Literal["started", "exists"]:
        variables = self._env | dict(env or {})
        if any("=" in name or not name for name in variables):
            raise SandboxError("env: a variable's name cannot be empty or contain =")
        if isinstance(argv, str) or not argv:
            raise SandboxError("argv: a list of at least one string is needed")
        if timeout is not None and timeout <= 0:
            raise SandboxError("timeout: must be more than 0 seconds")
        reply = await self._supervisor.ask(
            "start",
            id=check_id("command id", command_id),
            cwd=cwd or self._working_dir,
            arg=argv,
            env=[f"{name}={value}" for name, value in variables.items()],
            timeout_ms=0 if timeout is None else max(1, round(timeout * 1000)),
        )
        return "exists" if reply["state"] == "exists" else "started"

    async def state(self, command_id: str) -> CommandState:
        reply = await self._supervisor.ask("state", id=check_id("command id", command_id))
        match reply["state"]:
            case "running":
                return "running"
            case "exited":
                return "exited"
            case "lost":
                raise SandboxGone("the sandbox ended while the command ran: what it did is not known")
            case _:
                return "unknown"

    async def follow(
        self, command_id: str, *, keep: int = 64 * 1024, on_output: OnOutput | None = None
    ) -> CommandResult:
        outputs = {b"o": Output(keep), b"e": Output(keep)}

        async def take(kind: bytes, data: bytes) -> None:
            outputs[kind].add(data)
            if on_output is not None:
                await on_output(_NAMES[kind], data)

        end = await self._supervisor.attach(check_id("command id", command_id), take)
        signal = int(end["signal"])
        return CommandResult(
            exit_code=128 + signal if signal else int(end["code"]),
            signal=signal,
            timed_out=end["timed_out"] == "1",
            stdout=outputs[b"o"].stream(int(end["out_dropped"])),
            stderr=outputs[b"e"].stream(int(end["err_dropped"])),
        )

    async def kill(self, command_id: str, *, grace: float = 2.0) -> None:
        await self._supervisor.ask("kill", id=check_id("command id", command_id), grace_ms=max(0, round(grace * 1000)))

    async def save_output(self, command_id: str, stream: Literal["stdout", "stderr"], path: str) -> int:
        kept = self._spool / f"{check_id('command id', command_id)}.{_SUFFIX[stream]}"

        def save(target: int) -> int:
            source = os.open(kept, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return files.copy(source, target)
            finally:
                os.close(source)

        if await self.state(command_id) == "unknown":
            raise SandboxError(f"no command {command_id!r} has run in the sandbox")
        return await self._with_file(path, "w", save)

    async def read_file(self, path: str, *, limit: int = 64 * MIB) -> bytes:
        return await self._with_file(path, "r", lambda fd: files.read(fd, limit))

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self._with_file(path, "w", lambda fd: files.write(fd, data), mode)

    async def list_dir(self, path: str, *, limit: int = 10_000) -> list[Entry]:
        return await self._with_file(path, "d", lambda fd: files.entries(fd, limit))

    async def _with_file(self, path: str, flags: str, work: Callable[[int], T], mode: int = 0o644) -> T:
        """Open a file of the sandbox and work on it, in a thread; what goes wrong names the path."""

        def run() -> T:
            fd = self._supervisor.open(path, flags, mode=mode, mkdirs=flags == "w")
            try:
                return work(fd)
            finally:
                os.close(fd)

        try:
            return await to_thread.run_sync(run)
        except SandboxGone:
            raise
        except SandboxError as error:
            raise SandboxError(f"{path}: {error}") from error
        except OSError as error:
            raise SandboxError(f"{path}: {error.strerror}") from error
