"""Frames survive any way the socket cuts them, and what cannot be sent is refused before it is."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.sandboxes import SandboxError, SandboxGone, wire

payloads = st.lists(st.tuples(st.sampled_from([b"R", b"o", b"e", b"x"]), st.binary(max_size=200)), max_size=8)


@given(payloads, st.data())
def test_any_cut_gives_the_same_frames(frames: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(struct.pack("<I", 1 + len(body)) + kind + body for kind, body in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader, seen = wire.Frames(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        seen += list(reader.feed(stream[start:end]))
    assert seen == frames


@pytest.mark.parametrize("size", [0, wire.MAX_FRAME + 1, (1 << 32) - 1])
def test_a_size_that_cannot_be_is_not_our_protocol(size: int) -> None:
    with pytest.raises(SandboxGone):
        list(wire.Frames().feed(struct.pack("<I", size) + b"R"))


def test_a_request() -> None:
    frame = wire.request("start", {"id": "c", "arg": ["a", "\udcff"], "timeout_ms": 5})
    assert frame == struct.pack("<I", len(frame) - 4) + b"Qstart\0id=c\0arg=a\0arg=\xff\0timeout_ms=5\0"


def test_requests_that_cannot_be_sent() -> None:
    with pytest.raises(SandboxError, match="NUL"):
        wire.request("start", {"arg": ["a\0b"]})
    with pytest.raises(SandboxError, match="more than 1048576"):
        wire.request("start", {"arg": ["x" * wire.MAX_FRAME]})


def test_replies() -> None:
    assert wire.reply(b"R", b"ok\0state=started\0") == {"state": "started"}
    with pytest.raises(SandboxError, match="no such command"):
        wire.reply(b"R", b"err\0absent\0no such command\0")
    with pytest.raises(SandboxError, match="No such file"):
        wire.reply(b"R", b"err\0errno\0002\0")
    with pytest.raises(SandboxGone, match="not known"):
        wire.reply(b"R", b"err\0lost\0not known\0")
    with pytest.raises(SandboxGone):
        wire.reply(b"o", b"ok\0")
