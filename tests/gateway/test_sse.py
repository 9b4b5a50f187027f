"""The reader of server-sent events: the standard's examples, and the same result however the bytes are cut."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.gateway import sse

_PARTS = [b"data: ", b"data:", b"data", b"\n", b"\r\n", b"\r", b":", b" ", b"event: x", b"\xef\xbb\xbf", b"a", b"\xff"]
_STREAM = st.lists(st.sampled_from([*_PARTS, "\u00e9".encode(), "\U0001f680".encode()]), max_size=40).map(b"".join)


def _decoded(stream: bytes, cuts: list[int]) -> list[str]:
    decoder = sse.Decoder()
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    out: list[str] = []
    for begin, end in pairwise(borders):
        out += decoder.feed(stream[begin:end])
    return out


@given(_STREAM, st.lists(st.integers(0, 150), max_size=10))
def test_the_events_do_not_depend_on_how_the_bytes_are_cut(stream: bytes, cuts: list[int]) -> None:
    whole = _decoded(stream, [])
    assert _decoded(stream, cuts) == whole
    assert _decoded(stream, list(range(len(stream)))) == whole


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20), min_size=1), _STREAM)
def test_what_is_written_is_read(lines: list[str], before: bytes) -> None:
    event = b"".join(b"data: " + line.encode() + b"\r\n" for line in lines) + b"\r\n"
    assert _decoded(b": comment\n" + event, [])[-1:] == ["\n".join(lines)]
    assert _decoded(before + b"\n\n" + event, [])[-1:] == ["\n".join(lines)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", ["YHOO\n+2\n10"]),
        (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
         ["first event", "second event", " third event"]),
        (b"data\n\ndata\ndata\n\ndata:", ["", "\n"]),
        (b"data:test\n\ndata: test\n\n", ["test", "test"]),
        (b"\xef\xbb\xbfdata: x\r\rdata: y\r\n\r\n", ["x", "y"]),
        (b"event: ping\n\ndatabase: no\n\n", []),
        (b"data: unfinished\n", []),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
)  # fmt: skip
def test_examples(stream: bytes, events: list[str]) -> None:
    assert _decoded(stream, []) == events


@pytest.mark.parametrize("chunk", [b"x" * 100, b"data: " + b"y" * 94, b"data: yyyyyy\n"])
def test_an_event_without_an_end_is_refused(chunk: bytes) -> None:
    decoder = sse.Decoder(limit=1000)
    with pytest.raises(sse.EventTooLarge, match="1000 bytes"):
        for _ in range(1000):
            decoder.feed(chunk)


async def test_many_events_of_one_chunk_come_one_by_one() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"data: 1\n\ndata: 2\n\nda"
        yield b"ta: 3\n\n"

    assert [data async for data in sse.read(chunks())] == ["1", "2", "3"]
