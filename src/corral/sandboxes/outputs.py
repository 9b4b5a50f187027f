"""Keeps the head and the tail of a stream of bytes, however long it is."""

from ._base import Stream


class Output:
    """At most `keep` bytes of the head and `keep` of the tail."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self.size += len(data)
        room = self._keep - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._keep:
            del self._tail[: len(self._tail) - self._keep]

    def stream(self, dropped: int) -> Stream:
        """What was kept, with the count of bytes that never came."""
        tail = self._tail[max(0, len(self._tail) - self._keep) :]
        return Stream(bytes(self._head), bytes(tail), self.size, dropped)
