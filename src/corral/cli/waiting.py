"""How far an object is that somebody waits for, on stderr: one line that changes on a terminal, else each new phase."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from corral.cli import printing, screen
from corral.cli.live import usd
from corral.cli.targets import Target


class Waiting(AbstractContextManager["Waiting"]):
    """Shows one object's state until it is left; the line of a terminal then goes away."""

    def __init__(self, target: Target, console: Console | None = None) -> None:
        self._target, self._console = target, console or screen.console()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._task = self._progress.add_task(str(target), total=None)
        self._told = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def show(self, document: dict[str, Any]) -> None:
        """The object has changed."""
        status = document.get("status") or {}
        phase = " ".join(filter(None, (status.get("phase"), status.get("reason"))))
        if self._console.is_terminal:
            text = printing.safe(f"{self._target}  {', '.join([phase, *_work(status)])}")
            self._progress.update(self._task, description=text, refresh=True)
        elif phase and phase != self._told:
            printing.err(f"{self._target} {phase}")
        self._told = phase


def _work(status: dict[str, Any]) -> list[str]:
    """What has been done and spent, where the kind counts it."""
    steps, cost = (status.get("steps") or {}).get("total"), status.get("cost") or {}
    done = [f"{steps} step{'' if steps == 1 else 's'}"] if steps else []
    return done + ([f"{usd(cost['totalUSD'])} of {usd(cost.get('limitUSD', '0.00'))}"] if "totalUSD" in cost else [])
