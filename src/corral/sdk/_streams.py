"""Answers that go on: JSON documents, one a line, until the server or the reader ends them."""

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

LINE_LIMIT = 64 << 20


class Event(NamedTuple):
    """One change: ADDED, MODIFIED, DELETED or BOOKMARK, and the object (or a Table of one row) after it."""

    type: str
    object: dict[str, Any]

    @property
    def version(self) -> str:
        """The resourceVersion to go on from, or "" when the event does not say."""
        metadata = self.object.get("metadata")
        return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""


async def documents(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects in a stream of bytes, one a line. Raises ValueError for what is not one.

    Lines end with LF only: text inside JSON may hold U+2028 and other characters that str.splitlines would split at. A
    last line without its LF is a broken connection, not a document, and is dropped.
    """
    rest = bytearray()
    async for chunk in chunks:
        start = len(rest)
        rest += chunk
        if b"\n" not in chunk:
            if len(rest) > LINE_LIMIT:
                raise ValueError("the server sent a line of more than 64 MiB")
            continue
        end = rest.rindex(b"\n", start) + 1
        lines, rest = bytes(rest[:end]), rest[end:]
        for line in lines.split(b"\n"):
            if line.strip():
                document = json.loads(line)
                if not isinstance(document, dict):
                    raise ValueError("the server sent a line that is not a JSON object")
                yield document
