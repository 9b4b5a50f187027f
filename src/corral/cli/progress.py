"""Progress of what takes long before a server answers: the download and the loading of a local model."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from corral.cli import printing, screen

_SECONDS_BETWEEN_LINES = 2.0
_BYTES_FROM = 1_000_000

Report = Callable[[str, int, int, str], None]
"""Called with the stage, how much is done, how much there is (0: not known), and a text."""


@contextmanager
def shown() -> Iterator[Report]:
    """A function to report progress to, shown on stderr: bars on a terminal, else lines now and then."""
    console = screen.console()
    if not console.is_terminal:
        yield lines()
        return
    bars = Bars(console)
    try:
        yield bars.report
    finally:
        bars.stop()


def lines(write: Callable[[str], None] = printing.err, clock: Callable[[], float] = time.monotonic) -> Report:
    """Reports as lines of text: where a stage begins, and then each new tenth of it, but not more often than each two
    seconds, so that a log stays short."""
    written: dict[str, tuple[int, float]] = {}

    def report(stage: str, done: int, total: int, text: str) -> None:
        tenth, now = 10 * done // total if total > 0 else 0, clock()
        last, when = written.get(stage, (-1, -math.inf))
        if tenth == last or now < when + _SECONDS_BETWEEN_LINES:
            return
        written[stage] = tenth, now
        percent = f" {10 * tenth} %" if total > 0 else ""
        write(f"{stage}{percent}{f'  {text}' if text else ''}")

    return report


class Bars:
    """A bar for the stage that is under way; it leaves the screen when the next one begins, and at the end."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(*_columns(), console=console, transient=True)
        self._task: TaskID | None = None
        self._stage = ""
        self._after = lines()
        self._stopped = False

    def report(self, stage: str, done: int, total: int, text: str) -> None:
        """Show how far a stage is; as a line when the bars have been stopped, since other text follows then."""
        if self._stopped:
            self._after(stage, done, total, text)
            return
        self._progress.start()
        if stage != self._stage and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        if self._task is None:
            self._task = self._progress.add_task("", amount="")
        # What has less is not counted in bytes.
        amount = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if total >= _BYTES_FROM else ""
        label = printing.safe(f"{stage}  {text}" if text else stage)
        self._progress.update(
            self._task,
            completed=done,
            total=total or None,
            description=label,
            amount=amount,
            refresh=stage != self._stage,
        )
        self._stage = stage

    def stop(self) -> None:
        """Take the bar from the screen."""
        self._stopped = True
        self._progress.stop()


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(),
    )
