"""Text for people and programs: tables, documents, and no control characters on a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from corral.base.text import printable


def safe(text: str) -> str:
    """The text without anything that steers a terminal; a lone carriage return, which overwrites a line, included."""
    return printable(text.replace("\r\n", "\n")).replace("\r", "\\x0d")


def out(text: str) -> None:
    """A line on stdout, as it is for programs, made safe for a terminal."""
    sys.stdout.write((safe(text) if sys.stdout.isatty() else text) + "\n")
    sys.stdout.flush()


def err(text: str) -> None:
    """A line on stderr, always made safe: it is for people, now or later in a log."""
    sys.stderr.write(safe(text) + "\n")
    sys.stderr.flush()


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of aligned columns under upper-case titles."""
    body = [[_cell(value) for value in row] for row in rows]
    lines = [[title.upper() for title in titles], *body] if titles else body
    widths = [max(len(line[i]) for line in lines) for i in range(min(map(len, lines), default=0))]
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
