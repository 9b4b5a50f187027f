"""Server-sent events, read from bytes as they arrive (WHATWG HTML, section 9.2.6).

Lines are split as bytes and decoded whole, so a character that is cut in two by a chunk border is never damaged. An
event is delivered when its blank line has come; what is unfinished at the end of the stream is dropped, as the standard
says, because half an event is not an event.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable

LIMIT = 16 << 20
"""Bytes of one event. More is not a model's answer, and must not fill the memory."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """One event has more bytes than the limit."""


class Decoder:
    """Turns chunks of bytes, however they are cut, into the data of each event."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._scanned = 0
        self._skip_newline = False
        self._start = True
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that this chunk completes. Raises EventTooLarge."""
        self._rest += chunk
        if self._start and not self._pass_bom():
            return []
        if self._skip_newline and self._rest:
            if self._rest.startswith(b"\n"):
                del self._rest[0]
            self._skip_newline = False
        done: list[str] = []
        begin = 0
        while match := _LINE_END.search(self._rest, max(begin, self._scanned)):
            # A lone CR ends a line at once; when its LF comes with the next chunk, that is the same line end.
            self._skip_newline = match.group() == b"\r" and match.end() == len(self._rest)
            self._line(bytes(self._rest[begin : match.start()]), done)
            begin = match.end()
        del self._rest[:begin]
        self._scanned = len(self._rest)
        self._check(len(self._rest))
        return done

    def _pass_bom(self) -> bool:
        """Drop a byte order mark; False while too few bytes are there to tell."""
        if len(self._rest) < len(_BOM) and _BOM.startswith(self._rest):
            return False
        if self._rest.startswith(_BOM):
            del self._rest[: len(_BOM)]
        self._start = False
        return True

    def _line(self, line: bytes, done: list[str]) -> None:
        if not line:
            if self._data:
                done.append("\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._check(len(value))
            self._size += len(value)
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))

    def _check(self, more: int) -> None:
        if self._size + more > self._limit:
            raise EventTooLarge(f"an event of the stream has more than {self._limit} bytes")


async def read(chunks: AsyncIterable[bytes], limit: int = LIMIT) -> AsyncGenerator[str, None]:
    """The data of each event of a stream of bytes. Raises EventTooLarge."""
    decoder = Decoder(limit)
    async for chunk in chunks:
        for data in decoder.feed(chunk):
            yield data
