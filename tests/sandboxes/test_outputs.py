"""Head and tail are those of the whole stream, however it comes."""

from hypothesis import given
from hypothesis import strategies as st

from corral.sandboxes.outputs import Output


@given(st.lists(st.binary(max_size=50), max_size=30), st.integers(0, 40))
def test_head_and_tail(chunks: list[bytes], keep: int) -> None:
    output, whole = Output(keep), b"".join(chunks)
    for chunk in chunks:
        output.add(chunk)
    stream = output.stream(7)
    assert stream.head == whole[:keep]
    assert stream.tail == whole[keep:][max(0, len(whole) - 2 * keep) :]
    assert len(stream.tail) <= keep
    assert (stream.size, stream.dropped) == (len(whole), 7)


def test_memory_is_flat() -> None:
    output = Output(1000)
    for _ in range(1000):
        output.add(bytes(1000))
    assert len(output._head) + len(output._tail) <= 3000
