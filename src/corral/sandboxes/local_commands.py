"""Commands as child processes of the platform: a process group each, and a thread that reads its output."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

StreamName = Literal["stdout", "stderr"]
STREAMS: tuple[StreamName, StreamName] = ("stdout", "stderr")
_TIMEOUT_GRACE = 0.5
_CHUNK = 65536
_DRAIN = 1 << 20
_JOIN_SECONDS = 10.0


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


class LocalCommand:
    """A process group and the thread that reads its output and ends it in time."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], spool: Path, limit: int, timeout: float | None
    ) -> None:
        self.spools = {name: _Spool(spool.with_suffix(f".{name}"), limit) for name in STREAMS}
        self.code: int | None = None
        self.timed_out = False
        self._changed: list[Callable[[], object]] = []
        self._kill_at: float | None = None
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._lock = threading.Lock()
        try:
            self._process = _spawn(argv, cwd, env)
        except BaseException:
            for own in self.spools.values():
                own.path.unlink()
            raise
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
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
