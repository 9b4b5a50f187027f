"""Commands as plain processes of this machine, WITHOUT isolation: for trusted code where no real sandbox can run.

They can read and change all that the platform's user can, use the network, and see the platform's files. The operator
has to accept that in the settings. Commands are known only to the platform process that started them.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from anyio import to_thread

from .. import files
from .._base import (
    MIB,
    CommandResult,
    CommandState,
    Driver,
    DriverSettings,
    Entry,
    OnOutput,
    Probe,
    Sandbox,
    SandboxError,
    SandboxGone,
    SandboxSpec,
)
from ..ids import check_id
from ..local_commands import STREAMS, LocalCommand, StreamName
from ..outputs import Output
from ..records import Place, names
from ..removal import remove_tree
from ..supervised import BASE_ENV

T = TypeVar("T")


class ProcessSandbox:
    """A directory, and processes that start in it."""

    def __init__(self, place: Place, spec: SandboxSpec) -> None:
        self._place = place
        self._spec = spec
        self._commands: dict[str, LocalCommand] = {}
        self._starting = threading.Lock()
        self._env = BASE_ENV | {
            "PATH": os.environ.get("PATH", BASE_ENV["PATH"]),
            "HOME": str(place.path / "home"),
            **spec.env,
        }

    @property
    def id(self) -> str:
        return self._place.path.name

    async def start(
        self,
        command_id: str,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Literal["started", "exists"]:
        if isinstance(argv, str) or not argv:
            raise SandboxError("argv: a list of at least one string is needed")
        variables = self._env | dict(env or {})
        limit, directory = self._spec.limits.output, self._path(cwd or ".")

        def begin() -> Literal["started", "exists"]:
            with self._starting:
                if self._known(command_id) is not None:
                    return "exists"
                spool = self._place.spool / command_id
                self._commands[command_id] = LocalCommand(argv, directory, variables, spool, limit, timeout)
                return "started"

        try:
            return await to_thread.run_sync(begin)
        except (OSError, ValueError) as error:
            raise SandboxError(f"the command could not be started: {error}") from error

    async def state(self, command_id: str) -> CommandState:
        command = self._known(command_id)
        if command is None:
            return "unknown"
        return "running" if command.code is None else "exited"

    async def follow(
        self, command_id: str, *, keep: int = 64 * 1024, on_output: OnOutput | None = None
    ) -> CommandResult:
        command = self._command(command_id)
        outputs = {name: Output(keep) for name in STREAMS}
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(changed.set)

        unsubscribe = command.subscribe(wake)
        try:
            while True:
                changed.clear()
                code = command.code
                for name, output in outputs.items():
                    while output.size < command.spools[name].kept:
                        data = await to_thread.run_sync(command.spools[name].read, output.size)
                        output.add(data)
                        if on_output is not None:
                            await on_output(name, data)
                if code is not None:
                    break
                await changed.wait()
        finally:
            unsubscribe()
        return CommandResult(
            exit_code=128 - code if code < 0 else code,
            signal=max(0, -code),
            timed_out=command.timed_out,
            stdout=outputs["stdout"].stream(command.spools["stdout"].dropped),
            stderr=outputs["stderr"].stream(command.spools["stderr"].dropped),
        )

    async def kill(self, command_id: str, *, grace: float = 2.0) -> None:
        self._command(command_id).kill(grace)

    async def save_output(self, command_id: str, stream: StreamName, path: str) -> int:
        kept = self._command(command_id).spools[stream].path

        def save(target: int) -> int:
            with open(kept, "rb") as source:
                return files.copy(source.fileno(), target)

        return await self._with_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, save)

    async def read_file(self, path: str, *, limit: int = 64 * MIB) -> bytes:
        return await self._with_file(path, os.O_RDONLY, lambda fd: files.read(fd, limit))

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        await self._with_file(path, flags, lambda fd: files.write(fd, data), mode)

    async def list_dir(self, path: str, *, limit: int = 10_000) -> list[Entry]:
        return await self._with_file(path, os.O_RDONLY | os.O_DIRECTORY, lambda fd: files.entries(fd, limit))

    def end(self) -> None:
        """Kill the process groups of all commands and wait for their ends. Blocks."""
        for command in self._commands.values():
            command.kill(0)
        for command in self._commands.values():
            command.join()

    def _known(self, command_id: str) -> LocalCommand | None:
        check_id("command id", command_id)
        command = self._commands.get(command_id)
        if command is None and (self._place.spool / f"{command_id}.stdout").exists():
            raise SandboxGone("the command was started by a platform process that has ended: what it did is not known")
        return command

    def _command(self, command_id: str) -> LocalCommand:
        if (command := self._known(command_id)) is None:
            raise SandboxError("no such command")
        return command

    def _path(self, path: str) -> Path:
        """Where a path of the sandbox lies: the working directory is elsewhere on this machine, all else is not."""
        parts = Path(self._spec.working_dir, path)
        if parts.is_relative_to(self._spec.working_dir):
            return self._place.workspace / parts.relative_to(self._spec.working_dir)
        return parts

    async def _with_file(self, path: str, flags: int, work: Callable[[int], T], mode: int = 0o644) -> T:
        target = self._path(path)

        def run() -> T:
            if flags & os.O_CREAT:
                target.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(target, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
            try:
                return work(fd)
            finally:
                os.close(fd)

        try:
            return await to_thread.run_sync(run)
        except SandboxError as error:
            raise SandboxError(f"{path}: {error}") from error
        except (OSError, ValueError) as error:
            raise SandboxError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


class ProcessDriver:
    """Driver `process`."""

    name = "process"

    def __init__(self, settings: DriverSettings) -> None:
        self._home = Path(settings.directory).absolute()
        self._sandboxes: dict[str, ProcessSandbox] = {}

    async def probe(self) -> Probe:
        guarantees: dict[str, Literal["hard", "soft", "none"]] = dict.fromkeys(
            ("memory", "processes", "cpu", "disk", "network"), "none"
        )
        return Probe(works=True, detail="plain processes without isolation", guarantees=guarantees)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        check_id("sandbox id", spec.id)
        if spec.secrets:
            raise SandboxError("secrets: the driver process has no place that only one sandbox can read; use bwrap")
        if spec.id not in self._sandboxes:
            place = Place(self._home, spec.id)

            def make() -> None:
                self._home.mkdir(mode=0o711, parents=True, exist_ok=True)
                place.make(own_uid=False)
                (place.path / "home").mkdir(exist_ok=True)

            try:
                await to_thread.run_sync(make)
            except OSError as error:
                raise SandboxError(f"the sandbox could not be made: {error}") from error
            self._sandboxes.setdefault(spec.id, ProcessSandbox(place, spec))
        return self._sandboxes[spec.id]

    async def adopt(self, sandbox_id: str) -> Sandbox | None:
        return self._sandboxes.get(check_id("sandbox id", sandbox_id))

    async def list(self) -> AsyncIterator[str]:
        for name in await to_thread.run_sync(names, self._home):
            yield name

    async def destroy(self, sandbox_id: str, *, keep_files: bool = False) -> None:
        place = Place(self._home, check_id("sandbox id", sandbox_id))
        sandbox = self._sandboxes.pop(sandbox_id, None)

        def remove() -> None:
            if sandbox is not None:
                sandbox.end()
            if keep_files and place.path.exists():
                place.clear()
            elif not keep_files:
                remove_tree(place.path)

        try:
            await to_thread.run_sync(remove)
        except OSError as error:
            raise SandboxError(f"the sandbox {sandbox_id} could not be removed: {error}") from error

    def workspace(self, sandbox_id: str) -> str | None:
        path = Place(self._home, check_id("sandbox id", sandbox_id)).workspace
        return str(path) if path.is_dir() else None


def create_driver(settings: DriverSettings) -> Driver:
    """The driver, when the operator has accepted it. Raises SandboxError otherwise."""
    if not settings.unsafe:
        raise SandboxError(
            "the driver process gives commands no isolation: they can read and change everything that this user can, "
            "and use the network. Use bwrap, or accept that in the settings (unsafe) where all commands are trusted"
        )
    return ProcessDriver(settings)
