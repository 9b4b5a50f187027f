"""What a sandbox is to the rest of the house: a place where commands run and files lie, addressed by ids we choose.

Everything is idempotent by id, because the platform may die and come back between any two lines: creating an existing
sandbox adopts it, and starting a known command does nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds of one sandbox. Sizes in bytes."""

    processes: int = 256
    open_files: int = 4096
    file_size: int = 1 << 30
    memory: int = 1 << 30
    cpus: float = 1.0
    tmp: int = 256 * MIB
    shm: int = 64 * MIB
    output: int = 16 * MIB
    """Kept of each stream of each command; what is over is counted and dropped."""


@dataclass(frozen=True)
class SandboxSpec:
    """What to create. `id` is at most 64 letters, digits, `-` and `_`, and is the sandbox's identity for ever."""

    id: str
    image: str = "host"
    """`host`: the system directories of this machine, read-only. Drivers may know others."""
    working_dir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, bytes] = field(default_factory=dict)
    """Files under /run/secrets, mode 0400; never on disk, in arguments or in the environment."""
    limits: Limits = field(default_factory=Limits)
    unattended_seconds: float = 6 * 3600
    """The dead-man timer: a sandbox that its platform has not spoken to for so long ends itself."""


@dataclass(frozen=True)
class Probe:
    """Whether a driver works on this machine, found by trying it."""

    works: bool
    detail: str
    """What was found: the program and its version, or exactly why it cannot run."""
    remedy: str = ""
    """What the operator can do when it does not work."""
    guarantees: Mapping[str, Literal["hard", "soft", "none"]] = field(default_factory=dict)
    """How firmly `memory`, `processes`, `cpu`, `disk` and `network` are held."""


@dataclass(frozen=True)
class Stream:
    """Output of one stream: the head and the tail of what was kept, and how much there was."""

    head: bytes = b""
    tail: bytes = b""
    """Follows the head directly when nothing between was left out."""
    size: int = 0
    """Bytes kept by the sandbox (at most `Limits.output`)."""
    dropped: int = 0
    """Bytes over the limit, counted and not kept."""


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    exit_code: int
    """The shell's convention: 128 + n when signal n ended it."""
    signal: int = 0
    timed_out: bool = False
    stdout: Stream = field(default_factory=Stream)
    stderr: Stream = field(default_factory=Stream)


CommandState = Literal["unknown", "running", "exited"]
OnOutput = Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]


@dataclass(frozen=True)
class Entry:
    """A directory entry; `mode` has the permission bits only."""

    name: str
    size: int
    mode: int
    dir: bool


class SandboxError(Exception):
    """The sandbox could not do what was asked, and nothing happened; the text says why."""


class SandboxGone(SandboxError):
    """The sandbox or its supervisor is not there any more: what its commands did is not known."""


class Sandbox(Protocol):
    """One sandbox that is running."""

    @property
    def id(self) -> str: ...

    async def start(
        self,
        command_id: str,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Literal["started", "exists"]:
        """Start a command, at most once for an id. The supervisor ends it after `timeout` seconds, also while we are
        down. Raises SandboxGone, SandboxError."""
        ...

    async def state(self, command_id: str) -> CommandState:
        """What the supervisor knows of the command. Raises SandboxGone."""
        ...

    async def follow(
        self, command_id: str, *, keep: int = 64 * 1024, on_output: OnOutput | None = None
    ) -> CommandResult:
        """Wait for the command's end, from its first byte on, also after a restart; at most `keep` bytes of head and of
        tail are held in memory for each stream. Raises SandboxGone."""
        ...

    async def kill(self, command_id: str, *, grace: float = 2.0) -> None:
        """End the command and everything it started: TERM, then KILL after `grace` seconds."""
        ...

    async def save_output(self, command_id: str, stream: Literal["stdout", "stderr"], path: str) -> int:
        """Write all kept output of a command into a file of the sandbox; the number of bytes."""
        ...

    async def read_file(self, path: str, *, limit: int = 64 * MIB) -> bytes:
        """The bytes of a regular file. Raises SandboxError (absent, not a file, larger than `limit`)."""
        ...

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Replace a file with these bytes; parent directories are made. Raises SandboxError."""
        ...

    async def list_dir(self, path: str, *, limit: int = 10_000) -> list[Entry]:
        """The entries of a directory, by name. Raises SandboxError."""
        ...


class Driver(Protocol):
    """Starts and ends sandboxes of one kind. A module in `drivers/` has `create_driver(settings) -> Driver`."""

    name: str

    async def probe(self) -> Probe:
        """Whether it works here, found by running it."""
        ...

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A running sandbox; the one that runs already if it exists. Raises SandboxError with the reason."""
        ...

    async def adopt(self, sandbox_id: str) -> Sandbox | None:
        """The running sandbox of that id, after a restart of the platform, or None."""
        ...

    def list(self) -> AsyncIterator[str]:
        """Ids of all sandboxes of this installation that exist in any state."""
        ...

    async def destroy(self, sandbox_id: str, *, keep_files: bool = False) -> None:
        """End it with all its processes and delete its files (or leave its workspace); absent ones are fine."""
        ...

    def workspace(self, sandbox_id: str) -> str | None:
        """Where the sandbox's working directory lies on this host, if it does."""
        ...


@dataclass(frozen=True)
class DriverSettings:
    """What serve tells a driver."""

    directory: str
    """A private directory of this installation for sandboxes."""
    bwrap: str = ""
    """A bwrap to use instead of the one that is found."""
    unsafe: bool = False
    """The operator has accepted commands without isolation (driver `process`)."""
