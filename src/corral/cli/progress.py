"""Progress of what takes long before a server answers: the download and the loading of a local model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from corral.cli import printing

Report = Callable[[str, int, int, str], None]
"""Called with the stage, how much is done, how much there is (0: not known), and a text."""


@contextmanager
def shown() -> Iterator[Report]:
    """A function to report progress to, shown on stderr: bars on a terminal, else a line for every tenth."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines()
        return
    bars = _Bars(console)
    try:
        yield bars.report
    finally:
        bars.stop()


def lines(write: Callable[[str], None] = printing.err) -> Report:
    """Reports as lines of text, one for every tenth of a stage."""
    written: dict[str, int] = {}

    def report(stage: str, done: int, total: int, text: str) -> None:
        tenth = 10 * done // total if total > 0 else 0
        if written.get(stage) == tenth:
            return
        written[stage] = tenth
        percent = f" {10 * tenth} %" if total > 0 else ""
        write(f"{stage}{percent}{f'  {text}' if text else ''}")

    return report


class _Bars:
    """A bar for each stage; they leave the screen when all are full, as other lines follow then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def report(self, stage: str, done: int, total: int, text: str) -> None:
        label = printing.safe(f"{stage}  {text}" if text else stage)
        if self._progress is None:
            self._progress = Progress(*_columns(), console=self._console, transient=True)
            self._progress.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(label, total=total or None)
        self._progress.update(self._tasks[stage], completed=done, total=total or None, description=label)
        if self._progress.finished:
            self.stop()

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._tasks.clear()


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
