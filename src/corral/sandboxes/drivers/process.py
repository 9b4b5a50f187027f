"""Commands as plain processes of this machine, WITHOUT isolation: for trusted code where no real sandbox can run.

They can read and change all that the platform's user can, use the network, and see the platform's files. The operator
has to accept that in the settings. Commands are known only to the platform process that started them.
"""

import asyncio
import os
import selectors
import signal
import subprocess
import threading
import time
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
    Limits,
    OnOutput,
    Probe,
    Sandbox,
    SandboxError,
    SandboxGone,
    SandboxSpec,
)
from ..ids import check_id
from ..outputs import Output
from ..records import Place, names
from ..removal import remove_tree
from ..supervised import BASE_ENV

_TIMEOUT_GRACE = 0.5
_CHUNK = 65536
_DRAIN = 1 << 20
_JOIN_SECONDS = 10.0
T = TypeVar("T")
StreamName = Literal["stdout", "stderr"]
_STREAMS: tuple[StreamName, StreamName] = ("stdout", "stderr")


class _Spool:
    """What one stream wrote, in a file."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.kept = self.dropped = 0
        self._limit = limit
        path.touch(mode=0o600)

    def add(self, data: bytes) -> None:
        kept = data[: max(0, self._limit - self.kept)]
        with open(self.path, "ab") as file:
            file.write(kept)
        self.kept += len(kept)
        self.dropped += len(data) - len(kept)

    def read(self, offset: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(min(_CHUNK, self.kept - offset))


class _Command:
    """A process group and the thread that reads its output and ends it in time."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], spool: Path, limit: int, timeout: float | None
    ) -> None:
        self.spools = {name: _Spool(spool.with_suffix(f".{name}"), limit) for name in _STREAMS}
        self.code: int | None = None
        self.timed_out = False
        self._changed: list[Callable[[], object]] = []
        self._kill_at: float | None = None
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._lock = threading.Lock()
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._waker = wake
        self._process = _spawn(argv, cwd, env)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def subscribe(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call `changed`, in another thread, whenever there is output or the end; the result ends that."""
        self._changed.append(changed)
        return lambda: self._changed.remove(changed)

    def kill(self, grace: float) -> None:
        """TERM now and KILL after `grace` seconds, to the whole process group."""
        self._signal(signal.SIGTERM if grace > 0 else signal.SIGKILL)
        self._kill_at = time.monotonic() + grace
        with self._lock:
            if self._waker >= 0:
                os.write(self._waker, b"k")

    def join(self) -> None:
        """Wait for the end of a command that was killed."""
        self._thread.join(_JOIN_SECONDS)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _serve(self) -> None:
        process = self._process
        assert process.stdout is not None and process.stderr is not None
        ended = os.pidfd_open(process.pid)
        with selectors.DefaultSelector() as selector, process.stdout as out, process.stderr as err:
            for pipe, name in ((out, "stdout"), (err, "stderr")):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
            selector.register(ended, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while process.poll() is None:
                for key, _ in selector.select(self._enforce()):
                    if key.fd == self._wake:
                        os.read(self._wake, _CHUNK)
                    elif key.data and self._read(key.fd, key.data) == 0:
                        selector.unregister(key.fileobj)
            for key in [key for key in selector.get_map().values() if key.data]:
                rest = _DRAIN  # what the background writes after the end is not the command's
                while rest > 0 and (size := self._read(key.fd, key.data)) > 0:
                    rest -= size
        os.close(ended)
        with self._lock:
            os.close(self._wake)
            os.close(self._waker)
            self._waker = -1
        if self._kill_at is not None:
            self._signal(signal.SIGKILL)
        self.code = process.returncode
        self._tell()

    def _enforce(self) -> float | None:
        """Signal what is due; the seconds until something is."""
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self._deadline, self.timed_out = None, True
            self._signal(signal.SIGTERM)
            self._kill_at = now + _TIMEOUT_GRACE
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL)
            self._kill_at = now + _TIMEOUT_GRACE
        due = [moment for moment in (self._deadline, self._kill_at) if moment is not None]
        return max(0.0, min(due) - now) if due else None

    def _read(self, fd: int, name: StreamName) -> int:
        """Take over what a pipe holds: how many bytes, 0 at its end, -1 when there is nothing now."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return -1
        if data:
            self.spools[name].add(data)
            self._tell()
        return len(data)

    def _tell(self) -> None:
        for changed in list(self._changed):
            changed()


def _spawn(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:  # told as a shell would, so that the caller sees the same with every driver
        code = 127 if isinstance(error, FileNotFoundError) else 126
        text = f"{argv[0]}: {error.strerror}"
        return _spawn(["/bin/sh", "-c", 'echo "$1" >&2; exit "$2"', "sh", text, str(code)], Path("/"), {})


class ProcessSandbox:
    """A directory, and processes that start in it."""

    def __init__(self, place: Place, spec: SandboxSpec) -> None:
        self._place = place
        self._spec = spec
        self._commands: dict[str, _Command] = {}
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
        check_id("command id", command_id)
        if isinstance(argv, str) or not argv:
            raise SandboxError("argv: a list of at least one string is needed")
        if command_id in self._commands:
            return "exists"
        spool = self._place.spool / command_id
        if spool.with_suffix(".stdout").exists():
            raise SandboxGone("the command was started by a platform process that has ended: what it did is not known")
        variables = self._env | dict(env or {})
        limits: Limits = self._spec.limits
        try:
            self._commands[command_id] = await to_thread.run_sync(
                lambda: _Command(argv, self._path(cwd or "."), variables, spool, limits.output, timeout)
            )
        except (OSError, ValueError) as error:
            raise SandboxError(f"the command could not be started: {error}") from error
        return "started"

    async def state(self, command_id: str) -> CommandState:
        command = self._commands.get(check_id("command id", command_id))
        if command is None:
            return "unknown"
        return "running" if command.code is None else "exited"

    async def follow(
        self, command_id: str, *, keep: int = 64 * 1024, on_output: OnOutput | None = None
    ) -> CommandResult:
        command = self._command(command_id)
        outputs = {name: Output(keep) for name in _STREAMS}
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        unsubscribe = command.subscribe(lambda: loop.call_soon_threadsafe(changed.set))
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

    def _command(self, command_id: str) -> _Command:
        try:
            return self._commands[check_id("command id", command_id)]
        except KeyError:
            raise SandboxError("no such command") from None

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
