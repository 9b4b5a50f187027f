"""Consoles for what is styled: a terminal decides, and no variable that asks for colours in a file."""

import sys

from rich.console import Console


def console(*, stderr: bool = True) -> Console:
    """One for stderr or stdout that writes text as it is, without guessing at its meaning."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, soft_wrap=True, force_terminal=stream.isatty())
