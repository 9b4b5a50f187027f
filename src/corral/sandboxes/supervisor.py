"""The one client of a sandbox's supervisor: one connection to its control socket for each operation.

Requests and output are asynchronous. What opens files is synchronous, because the file work that follows blocks and
belongs to a thread anyway.
"""

import array
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.abc import UNIXSocketStream

from . import wire
from ._base import SandboxGone

SOCKET = "control.sock"
ANSWER_SECONDS = 30.0
"""A supervisor that has not answered by then counts as gone; its answers take milliseconds."""

_GONE = (
    OSError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    TimeoutError,
)
T = TypeVar("T")
OnChunk = Callable[[bytes, bytes], Awaitable[None]]


@contextmanager
def _address(directory: Path) -> Iterator[str]:
    """The socket's address by way of its directory's descriptor: an address has room for 107 bytes only."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET}"
    finally:
        os.close(fd)


def listen(directory: Path) -> socket.socket:
    """The listening socket for a supervisor that will inherit it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            (directory / SOCKET).unlink()
        with _address(directory) as address:
            listener.bind(address)
        (directory / SOCKET).chmod(0o600)
        listener.listen(256)
    except BaseException:
        listener.close()
        raise
    return listener


class Supervisor:
    """Speaks to the supervisor whose control socket lies in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def ask(self, operation: str, **fields: wire.Field) -> dict[str, str]:
        """One request and its reply. Raises SandboxError as the supervisor says, SandboxGone when it is silent."""
        frame = wire.request(operation, fields)
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                async with await self._connect() as stream:
                    await stream.send(frame)
                    frames = wire.Frames()
                    while True:
                        for kind, body in frames.feed(await stream.receive()):
                            return wire.reply(kind, body)
        except _GONE as error:
            raise self._gone(error) from error

    async def attach(self, command_id: str, on_chunk: OnChunk) -> dict[str, str]:
        """Pass on all output of a command, as (b"o" or b"e", bytes), until its end; how it ended.

        Raises SandboxError for an unknown command, SandboxGone.
        """
        frame = wire.request("attach", {"id": command_id})
        frames = wire.Frames()
        answered = False
        async with await self._call(self._connect) as stream:
            await self._call(stream.send, frame)
            while True:
                for kind, body in frames.feed(await self._call(stream.receive)):
                    if not answered:
                        wire.reply(kind, body)
                        answered = True
                    elif kind == b"x":
                        return wire.fields(body)
                    else:
                        await on_chunk(kind, body[8:])

    def ping(self, timeout: float = ANSWER_SECONDS) -> int:
        """The host's pid of the supervisor, which the kernel vouches for. Blocks. Raises SandboxGone."""
        with self._connected(timeout) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            _, control = self._exchange(connection, wire.request("ping", {}))
            for level, kind, data in control:
                if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                    return int(struct.unpack("3i", data)[0])
        raise SandboxGone("whoever answers for the sandbox has no credentials")

    def open(self, path: str, flags: str, *, mode: int = 0o644, mkdirs: bool = False) -> int:
        """A descriptor of a file as the sandbox sees it; flags are `r`, `w` (made or emptied) or `d` (a directory).

        Blocks. Raises SandboxError (absent, no permission, ...), SandboxGone.
        """
        frame = wire.request("open", {"path": path, "flags": flags, "mode": mode, "mkdirs": int(mkdirs)})
        with self._connected(ANSWER_SECONDS) as connection:
            body, control = self._exchange(connection, frame)
            fds = array.array("i")
            for level, kind, data in control:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
            try:
                wire.reply(b"R", body)
                return fds.pop(0)
            except IndexError:
                raise SandboxGone("the supervisor of the sandbox did not hand over the file") from None
            finally:
                for fd in fds:
                    os.close(fd)

    def _exchange(self, connection: socket.socket, frame: bytes) -> tuple[bytes, list[tuple[int, int, bytes]]]:
        """Send a request; the reply's payload and the control messages that came with it."""
        space = socket.CMSG_SPACE(12) + socket.CMSG_SPACE(8)
        frames = wire.Frames()
        control = []
        connection.sendall(frame)
        while True:
            data, more, _, _ = connection.recvmsg(65536, space, socket.MSG_CMSG_CLOEXEC)
            control += more
            if not data:
                raise ConnectionResetError("it closed the connection")
            for _, body in frames.feed(data):
                return body, control

    @contextmanager
    def _connected(self, timeout: float) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            try:
                with _address(self._directory) as address:
                    connection.connect(address)
                yield connection
            except OSError as error:
                raise self._gone(error) from error

    async def _call(self, do: Callable[..., Awaitable[T]], *arguments: bytes) -> T:
        try:
            return await do(*arguments)
        except _GONE as error:
            raise self._gone(error) from error

    async def _connect(self) -> UNIXSocketStream:
        with _address(self._directory) as address:
            return await anyio.connect_unix(address)

    def _gone(self, error: BaseException) -> SandboxGone:
        return SandboxGone(f"the sandbox {self._directory.name} does not run ({error or type(error).__name__})")
