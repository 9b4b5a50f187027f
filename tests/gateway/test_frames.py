"""Whatever a model writes can be written as JSON and stored."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.gateway import frames
from corral.gateway.call import Uncertain

_ANY_TEXT = st.text(st.one_of(st.characters(codec=None), st.characters(categories=["Cs"]), st.just("\x00")))


@given(_ANY_TEXT)
def test_clean_text_is_utf_8_without_nul(text: str) -> None:
    cleaned = frames.clean(text)
    assert cleaned.encode().decode() == cleaned
    assert "\x00" not in cleaned
    assert frames.clean(cleaned) == cleaned


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_good_text_is_left_alone(text: str) -> None:
    assert frames.clean(text) == text


@given(st.lists(_ANY_TEXT))
def test_text_in_pieces_is_the_text(pieces: list[str]) -> None:
    stream = frames.TextStream()
    shown = "".join(stream.add(piece) for piece in pieces)
    assert str(stream) == frames.clean("".join(pieces))
    assert str(stream).startswith(shown)
    assert shown.encode().decode() == shown


def test_a_pair_cut_between_two_pieces_is_joined() -> None:
    stream = frames.TextStream()
    assert stream.add("go \ud83d") == "go "
    assert stream.add("\ude80!") == "\U0001f680!"


@pytest.mark.parametrize(
    "text",
    ['{"command": "ls', "[1]", '"text"', '{"x": NaN}', '{"x": 1e999}', '{"x": -Infinity}', '{"x": ' + "9" * 5000 + "}",
     '{"x": ' + "[" * 150 + "]" * 150 + "}", "[" * 100_000],
)  # fmt: skip
def test_arguments_that_are_no_json_object_are_kept_as_text(text: str) -> None:
    assert frames.tool_input(text) == {"_malformed": text}


def test_arguments_are_cleaned() -> None:
    assert frames.tool_input("") == {}
    assert frames.tool_input(' {"a\\ud800": ["\\u0000", 1, true, null, 0.5]} ') == {
        "a\ufffd": ["\ufffd", 1, True, None, 0.5]
    }


@given(st.text())
def test_tool_input_is_always_an_object_that_json_takes(text: str) -> None:
    value = frames.tool_input(text)
    assert json.loads(json.dumps(value, allow_nan=False)) == value


@pytest.mark.parametrize("value", [-1, 1.5, "3", True, [], {}])
def test_a_counter_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match="whole number"):
        frames.counter(value)
    assert (frames.counter(None), frames.counter(7)) == (0, 7)


def test_an_unexpected_frame_is_an_unknown_outcome() -> None:
    with pytest.raises(Uncertain, match="malformed frame"), frames.reading():
        raise KeyError("type")
