"""Bytes from outside made safe to store, to show and to send."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def decode(data: bytes) -> str:
    """UTF-8 text with U+FFFD for what is not UTF-8, and for NUL, which databases refuse."""
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


def clip(text: str, limit: int, keep_tail: float = 0.5) -> str:
    """At most `limit` characters of head and tail, with a line between that counts what is left out."""
    if len(text) <= limit:
        return text
    tail = int(limit * keep_tail)
    head = limit - tail
    gap = len(text) - limit
    return f"{text[:head]}\n... {gap} characters left out ...\n{text[len(text) - tail :] if tail else ''}"


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control and direction-override characters are shown as \\x1b and the like."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)
