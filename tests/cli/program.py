"""The command line as a process."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = [sys.executable, "-W", "error", "-c", "from corral.cli.main import main; main()"]
BOUND = 60.0
"""Seconds that anything may take; reached only when something is wrong."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, with a bound."""
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {BOUND} s"
        time.sleep(0.02)


@dataclass
class Started:
    """A command that runs; its output is read all the time."""

    process: subprocess.Popen[str]
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        streams = ((self.process.stdout, self.out), (self.process.stderr, self.err))
        self._threads = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in streams]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: object, lines: list[str]) -> None:
        for line in stream:  # type: ignore[attr-defined]
            lines.append(line)

    def says(self, text: str) -> None:
        """Wait until stderr holds the text."""
        until(lambda: text in "".join(self.err) or self.process.poll() is not None, f"{text!r}")
        assert text in "".join(self.err), "".join(self.err)

    def end(self, sig: int | None = None) -> tuple[int, str, str]:
        """Send a signal, if one is given, and wait: exit code, stdout, stderr."""
        if sig is not None:
            self.process.send_signal(sig)
        code = self.process.wait(BOUND)
        for thread in self._threads:
            thread.join(BOUND)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code, "".join(self.out), "".join(self.err)


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


@dataclass
class Corral:
    """Runs `corral` with a home and an environment of its own."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "LANG") if key in os.environ}
        return {**kept, "HOME": str(self.home), "CORRAL_HOME": str(self.home / "corral"), **self.env}

    def __call__(self, *args: str, stdin: str = "", code: int = 0) -> Done:
        """Run a command to its end, which must have this exit code."""
        done = subprocess.run(
            [*PROGRAM, *args],
            input=stdin,
            env=self.environment(),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str) -> Started:
        """Start a command."""
        process = subprocess.Popen(
            [*PROGRAM, *args],
            env=self.environment(),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(Started(process))
        return self.started[-1]

    def close(self) -> None:
        """End what a test that failed has left running, in order, so that servers clean up."""
        for started in self.started:
            if started.process.poll() is None:
                started.end(signal.SIGTERM)

    def on_terminal(self, *args: str) -> str:
        """What a command writes to a terminal on stdout and stderr."""
        leader, follower = pty.openpty()
        env = {**self.environment(), "TERM": "xterm", "COLUMNS": "120"}
        process = subprocess.Popen(
            [*PROGRAM, *args], env=env, cwd=self.home, stdin=follower, stdout=follower, stderr=follower
        )
        os.close(follower)
        written = bytearray()
        try:
            while chunk := os.read(leader, 65536):
                written += chunk
        except OSError:
            # EIO: the last process with the terminal has ended.
            pass
        finally:
            os.close(leader)
        process.wait(BOUND)
        return written.decode()
