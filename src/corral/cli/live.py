"""A run as it happens: each step as a few lines for people, on stderr."""

from contextlib import AbstractContextManager
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rich.console import Console
from rich.text import Text

from corral.base import clock
from corral.cli import screen
from corral.cli.printing import safe

if TYPE_CHECKING:
    from rich.status import Status

OUTPUT_LINES = 20


class Line(NamedTuple):
    """A line to show, and how it looks on a terminal."""

    text: str
    style: str = ""


def opening(step: dict[str, Any]) -> list[Line]:
    """What is known of a step when it starts. The last line may go on, with `closing`."""
    detail = step.get("detail") or {}
    if step["name"] == "model":
        return [Line(f"{_turn(step)} model call ...")]
    if step["name"] == "tool" and detail.get("tool") == "shell":
        first, *more = str(detail.get("command", "")).splitlines() or [""]
        return [Line(f"$ {first}", "bold"), *(Line(f"> {line}", "bold") for line in more)]
    return []


def closing(step: dict[str, Any], *, whole: bool = False) -> list[Line]:
    """What is known of a step when it has ended; `whole`: with the text of a last model call, which is the answer."""
    detail = step.get("detail") or {}
    if step["outcome"] != "Completed":
        why = f": {detail['error']}" if detail.get("error") else ""
        return [Line(f"  {step['name']} {step['outcome'].lower()}{why}", "red")]
    if step["name"] == "sandbox":
        return [Line(f"sandbox  ready in {_seconds(step)} ({detail.get('driver', 'unknown driver')})")]
    if step["name"] == "model":
        return _model(step, detail, whole=whole)
    if step["name"] == "tool":
        return _tool(step, detail)
    return [Line(f"{step['name']:<8} {detail.get('key', '')}".rstrip())]


def usd(text: str) -> str:
    """An amount with at most four decimals, rounded up: a cost is never shown as less than it is."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return f"${text}"
    places = max(-int(amount.as_tuple().exponent), 2)
    return f"${amount.quantize(Decimal(1).scaleb(-min(places, 4)), ROUND_CEILING):f}"


def _turn(step: dict[str, Any]) -> str:
    turn = str(step["key"]).partition(".")[0].replace("-", " ")
    return f"{turn:<8}"


def _model(step: dict[str, Any], detail: dict[str, Any], *, whole: bool) -> list[Line]:
    failed = len(detail.get("attempts") or [])
    again = f", after {failed} that failed" if failed else ""
    used = [detail.get("inputTokens"), detail.get("outputTokens")]
    tokens = "unknown tokens" if None in used else f"{used[0]} in / {used[1]} out tokens"
    lines = [Line(f"{_seconds(step)}, {tokens}, {usd(str(step.get('costUSD', '0.00')))}{again}")]
    if (whole or detail.get("stop") == "tool_use") and (said := str(detail.get("text") or "").strip()):
        lines += [Line(f"  {line}", "italic") for line in said.splitlines()]
    return lines


def _tool(step: dict[str, Any], detail: dict[str, Any]) -> list[Line]:
    tool = detail.get("tool", "")
    if detail.get("error"):
        return [Line(f"  {tool}: {detail['error']}", "red")]
    if tool in ("read_file", "write_file"):
        return [Line(f"{tool.partition('_')[0]:<8} {detail.get('path', '')} ({detail.get('size', 0)} bytes)")]
    output = str(detail.get("output") or "").splitlines()
    lines = [Line(f"  {line}", "dim") for line in output[:OUTPUT_LINES]]
    if len(output) > OUTPUT_LINES:
        lines.append(Line(f"  ... {len(output) - OUTPUT_LINES} more lines", "dim"))
    exit_code = detail.get("exitCode", 0)
    ended = "stopped: out of time" if detail.get("timedOut") else f"exit {exit_code}"
    return [*lines, Line(f"  {ended} in {_seconds(step)}", "green" if exit_code == 0 else "red")]


def _seconds(step: dict[str, Any]) -> str:
    try:
        took = clock.parse_moment(step["completionTime"]) - clock.parse_moment(step["startTime"])
    except (KeyError, TypeError, ValueError):
        return "? s"
    seconds = max(took.total_seconds(), 0.0)
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"


class Live(AbstractContextManager["Live"]):
    """Shows steps in the order in which they start and end; on a terminal with colour and a sign of life."""

    def __init__(self, console: Console | None = None, *, whole: bool = False) -> None:
        self._whole = whole
        self._console = console or screen.console()
        self._opened: dict[str, str] = {}
        self._closed: set[str] = set()
        self._unfinished = ""
        """The key of the step whose opening line has not ended yet."""
        self._status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rest()

    def note(self, text: str, style: str = "") -> None:
        """Show lines that belong to no step."""
        self._rest()
        for line in text.splitlines():
            self._write(Line(line, style))

    def step(self, step: dict[str, Any]) -> None:
        """Show what is new of a step."""
        key = str(step["key"])
        if key not in self._opened:
            self._rest()
            lines = opening(step)
            self._opened[key] = lines[-1].text if lines and lines[-1].text.endswith("...") else ""
            for line in lines[:-1] if self._opened[key] else lines:
                self._write(line)
            self._begin(key, self._opened[key] or ("running" if step["name"] == "tool" else step["name"]))
        if step["outcome"] != "Started" and key not in self._closed:
            self._closed.add(key)
            lines = closing(step, whole=self._whole)
            beginning = self._opened[key] if lines and not lines[0].text.startswith("  ") else ""
            if self._unfinished == key:
                self._finish(lines[0] if beginning else Line(""))
                lines = lines[1:] if beginning else lines
            elif beginning:
                lines = [Line(f"{beginning} {lines[0].text}"), *lines[1:]]
            self._rest()
            for line in lines:
                self._write(line)

    def _begin(self, key: str, text: str) -> None:
        """The step is under way: a spinner on a terminal, else the beginning of its line."""
        if self._console.is_terminal:
            self._status = self._console.status(Text(safe(text)))
            self._status.start()
            self._unfinished = ""
        elif text.endswith("..."):
            self._console.print(Text(safe(text)), end=" ")
            self._console.file.flush()
            self._unfinished = key

    def _finish(self, line: Line) -> None:
        self._unfinished = ""
        self._write(line)

    def _rest(self) -> None:
        """End what is under way on the screen."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._unfinished:
            self._finish(Line(""))

    def _write(self, line: Line) -> None:
        self._console.print(Text(safe(line.text), style=line.style))
