"""What a server is started with."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Report = Callable[[str, int, int, str], None]
"""Called with a stage (download, verify, load ...), how much is done, how much there is (0: not known), and a text."""


def _silent(stage: str, done: int, total: int, text: str) -> None:
    """Nobody is shown the progress."""


@dataclass(frozen=True)
class Settings:
    """Where state is kept, where the server listens, and which parts it chooses."""

    home: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    database: str | None = None
    """A postgresql:// URL; SQLite in the home without it."""
    model: str | None = None
    """The default model; without it, the provider whose key is configured, else the local one."""
    unsafe: bool = False
    """Run commands without isolation."""
    only_own_runs: bool = False
    """A server for one command: it leaves runs alone that were created before it."""
    on_progress: Report = _silent


class CannotStart(Exception):
    """The server cannot start; `fix` says what to do."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix
