"""Text for people: aligned, and without what steers a terminal."""

import pytest

from corral.cli import printing


def test_columns_are_aligned_and_stay_so() -> None:
    widths: list[int] = []
    assert printing.table(["Name", "Turns"], [["long-name", 2], ["x", None]], widths) == [
        "NAME        TURNS",
        "long-name   2",
        "x           -",
    ]
    assert printing.table([], [["y", 30]], widths) == ["y           30"]
    assert printing.table([], []) == []


def test_a_cell_is_one_line() -> None:
    assert printing.table(["A", "B"], [["x\ny\tz", ["k1", "k2"]]])[1] == "x y z   k1,k2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain \u00fc \U0001f680\n\ttab", "plain \u00fc \U0001f680\n\ttab"),
        ("dos\r\nline", "dos\nline"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x1b[2J\x9b\x00\x7f", "\\x1b[2J\\x9b\\x00\\x7f"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
    ],
)
def test_safe(text: str, expected: str) -> None:
    assert printing.safe(text) == expected
