"""What every dialect needs from the frames of a stream: strict JSON, clean text, tool input and counters.

A model can write anything: half a surrogate pair, NUL, NaN, a number of a million digits, JSON nested ten thousand
deep. What leaves this module can be written as JSON and stored in any database.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .call import Block, Uncertain

MALFORMED = "_malformed"
"""The only key of a tool input that was not a JSON object; its value is the text as the model wrote it."""

DEPTH = 100
"""Levels of nesting in a tool's input: more than any schema needs, and less than any JSON parser takes."""

_STOP_WITHOUT_CALLS = {"tool_use": "end_turn"}
_STOP_WITH_CALLS = {"end_turn": "tool_use"}


def clean(text: str) -> str:
    """Text without NUL and without lone surrogates (U+FFFD instead); a pair that was cut in two is joined again."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\x00", "\ufffd")


def scrub(value: Any, depth: int = DEPTH) -> Any:
    """A JSON value with `clean` applied to all its text. Raises ValueError when it is nested deeper than `depth`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | dict) and not depth:
        raise ValueError("the JSON is nested too deep")
    if isinstance(value, list):
        return [scrub(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {clean(key): scrub(item, depth - 1) for key, item in value.items()}
    return value


def parse(text: str) -> Any:
    """The JSON value of a text. Raises ValueError, also for what Python reads and no other parser does."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None


def tool_input(text: str) -> dict[str, Any]:
    """The input of a tool call from the text of its arguments: an object, or `{"_malformed": text}`.

    Bad arguments are the model's mistake and not a fault of the call: the reply is complete and paid for, and the model
    can correct itself when the tool answers with an error.
    """
    if not text.strip():
        return {}
    try:
        value = parse(text)
        return dict(scrub(value)) if isinstance(value, dict) else {MALFORMED: clean(text)}
    except ValueError:
        return {MALFORMED: clean(text)}


def counter(value: Any) -> int:
    """A token counter as the service reports it; absent is 0. Raises ValueError."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a token counter is not a whole number")
    return value


def settled_stop(stop: str, content: list[Block]) -> str:
    """The stop reason that agrees with the content: some services say `stop` although they ask for tools."""
    has_calls = any(block.get("type") == "tool_use" for block in content)
    return (_STOP_WITH_CALLS if has_calls else _STOP_WITHOUT_CALLS).get(stop, stop)


@contextmanager
def reading() -> Iterator[None]:
    """Whatever a frame of an unexpected shape raises becomes Uncertain: the request was sent, the answer is lost."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise Uncertain(f"the stream has a malformed frame ({type(error).__name__})", status=200) from None


class TextStream:
    """Text that arrives in pieces. A pair of surrogates may be cut between two of them, so a first half waits."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._held = ""

    def add(self, piece: str) -> str:
        """Take a piece and return the clean text that can be shown now."""
        text = self._held + piece
        self._held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        ready = clean(text[: len(text) - len(self._held)])
        self._pieces.append(ready)
        return ready

    def __str__(self) -> str:
        return "".join(self._pieces) + clean(self._held)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError("a number is too large")
    return number
