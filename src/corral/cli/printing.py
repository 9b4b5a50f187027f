"""Text for people and programs: tables, documents, and no control characters on a terminal."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from corral.base.text import printable
from corral.cli.failures import Failure


def safe(text: str) -> str:
    """The text without anything that steers a terminal; a lone carriage return, which overwrites a line, included."""
    return printable(text.replace("\r\n", "\n")).replace("\r", "\\x0d")


_STYLES = {"green": "32", "red": "31", "cyan": "36"}


class Styled(str):
    """Text that is safe already and carries its own colours."""


def styled(text: str, colour: str) -> str:
    """The text in a colour when stdout is a terminal that wants colours, else as it is."""
    if not colour or not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return Styled(f"\x1b[{_STYLES[colour]}m{safe(text)}\x1b[0m")


def out(text: str) -> None:
    """A line on stdout, as it is for programs, made safe for a terminal. Raises Failure when it cannot be written."""
    try:
        sys.stdout.write((safe(text) if sys.stdout.isatty() and not isinstance(text, Styled) else text) + "\n")
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would be tried again when the program ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # A reader that has enough, such as `head`, is no news to anybody.
        told = "" if isinstance(error, BrokenPipeError) else f"stdout cannot be written: {error.strerror}"
        raise Failure(told) from error


def err(text: str) -> None:
    """A line on stderr, always made safe: it is for people, now or later in a log."""
    sys.stderr.write(safe(text) + "\n")
    sys.stderr.flush()


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]], widths: list[int] | None = None) -> list[str]:
    """Lines of aligned columns under upper-case titles (without titles: rows only).

    `widths` carries the columns' widths from one call to the next, so that rows that come later stay aligned.
    """
    body = [[_cell(value) for value in row] for row in rows]
    lines = [[title.upper() for title in titles], *body] if titles else body
    widths = [] if widths is None else widths
    for line in lines:
        widths += [0] * (len(line) - len(widths))
        widths[: len(line)] = map(max, widths, map(len, line))
    return ["   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip() for line in lines]


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return safe(" ".join(str(value).split()))


def as_json(document: Any) -> str:
    """Indented JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False)
