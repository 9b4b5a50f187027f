"""The frames of a sandbox's control socket: u32le length, one byte of type, payload. The other end is guest/sbx.h."""

import os
import struct
from collections.abc import Iterator, Mapping, Sequence

from ._base import SandboxError, SandboxGone

MAX_FRAME = 1 << 20
"""Bytes of type and payload that the supervisor takes."""

Field = str | int | Sequence[str]


def request(operation: str, fields: Mapping[str, Field]) -> bytes:
    """A request frame; a sequence gives its key several times. Raises SandboxError for text that cannot be sent."""
    parts = [operation.encode()]
    for key, value in fields.items():
        values = [str(value)] if isinstance(value, (str, int)) else value
        parts += [key.encode() + b"=" + os.fsencode(one) for one in values]
    if any(b"\0" in part for part in parts):
        raise SandboxError(f"{operation}: a NUL byte cannot be passed to a program; take it out")
    body = b"Q" + b"\0".join(parts) + b"\0"
    if len(body) > MAX_FRAME:
        raise SandboxError(f"{operation}: arguments and environment have {len(body)} bytes, more than {MAX_FRAME}")
    return struct.pack("<I", len(body)) + body


def fields(body: bytes) -> dict[str, str]:
    """The key=value strings of a payload."""
    pairs = (part.partition(b"=") for part in body.split(b"\0") if b"=" in part)
    return {key.decode("ascii"): os.fsdecode(value) for key, _, value in pairs}


def reply(kind: bytes, body: bytes) -> dict[str, str]:
    """The fields of a good reply. Raises SandboxError as the supervisor said, SandboxGone for a lost command."""
    if kind != b"R":
        raise SandboxGone("the supervisor of the sandbox does not speak our protocol")
    if body.startswith(b"ok\0"):
        return fields(body)
    _, code, text, *_ = [*os.fsdecode(body).split("\0"), "", ""]
    if code == "errno":
        raise SandboxError(os.strerror(int(text)))
    raise (SandboxGone if code == "lost" else SandboxError)(text or code)


class Frames:
    """Cuts what a socket yields into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames (type, payload) that are complete now. Raises SandboxGone when it is not our protocol."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= 4:
            (size,) = struct.unpack_from("<I", self._buffer, start)
            if not 1 <= size <= MAX_FRAME:
                raise SandboxGone("the supervisor of the sandbox does not speak our protocol")
            end = start + 4 + size
            if len(self._buffer) < end:
                break
            yield bytes(self._buffer[start + 4 : start + 5]), bytes(self._buffer[start + 5 : end])
            start = end
        del self._buffer[:start]
