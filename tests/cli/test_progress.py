"""Progress as lines of text and as bars."""

import io

import pytest
from rich.console import Console

from corral.cli import progress


def test_lines_are_few() -> None:
    written: list[str] = []
    now = 0.0
    report = progress.lines(written.append, lambda: now)
    for percent in range(101):
        now += 0.5
        report("download", percent * 4, 400, "package index")
    report("load", 0, 0, "")
    assert written[0] == "download 0 %  package index"
    assert written[-2:] == ["download 100 %  package index", "load"]
    assert len(written) == 12


def test_a_quick_stage_is_one_line() -> None:
    written: list[str] = []
    report = progress.lines(written.append, lambda: 0.0)
    for percent in range(101):
        report("verify", percent, 100, "x")
    assert written == ["verify 0 %  x"]


def test_a_bar_leaves_the_screen_and_lines_follow(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    bars = progress.Bars(Console(file=file, force_terminal=True, width=100))
    bars.report("download", 1_000_000, 400_000_000, "a\x1b]0;owned\x07")
    bars.report("load", 0, 1, "model")
    bars.stop()
    shown = file.getvalue()
    assert "1 of 400 MB" in shown
    assert "load  model" in shown
    assert "0 of 0 MB" not in shown
    assert "\x1b]0;owned" not in shown
    # The cursor is back, and the line of the last bar is erased.
    assert "\x1b[?25h" in shown[shown.rindex("load  model") :]
    assert "\x1b[2K" in shown[shown.rindex("load  model") :]
    bars.report("load", 1, 1, "again")
    assert file.getvalue() == shown
    assert capsys.readouterr().err == "load 100 %  again\n"
