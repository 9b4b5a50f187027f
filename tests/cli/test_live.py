"""What people see of a run while it happens."""

import io
from typing import Any

import pytest
from rich.console import Console

from corral.cli.live import Live, usd


def step(key: str, name: str, outcome: str = "Completed", **detail: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "key": key,
        "name": name,
        "outcome": outcome,
        "costUSD": detail.pop("cost", "0.00"),
        "startTime": "2026-01-31T09:00:00.000Z",
        "completionTime": None if outcome == "Started" else "2026-01-31T09:00:01.200Z",
        "detail": detail,
    }


def shown(*steps: dict[str, Any], terminal: bool = False) -> str:
    file = io.StringIO()
    with Live(Console(file=file, force_terminal=terminal, width=100, soft_wrap=True, highlight=False)) as live:
        for item in steps:
            live.step(item)
    return file.getvalue()


def test_a_whole_run() -> None:
    shell = {"tool": "shell", "command": "python3 --version"}
    assert shown(
        step("sandbox", "sandbox", "Started"),
        step("sandbox", "sandbox", driver="bwrap"),
        step("turn-1.model-1", "model", "Started", model="m"),
        step("turn-1.model-1", "model", inputTokens=812, outputTokens=24, stop="tool_use", text="I will look.\n"),
        step("turn-1.tool-1.0", "tool", "Started", **shell),
        step("turn-1.tool-1.0", "tool", **shell, exitCode=0, output="Python 3.11.2\n"),
        step("turn-1.model-2", "model", "Started"),
        step(
            "turn-1.model-2", "model", inputTokens=900, outputTokens=9, stop="end_turn", text="3.11", cost="0.00123456"
        ),
    ) == (
        "sandbox  ready in 1.2 s (bwrap)\n"
        "turn 1   model call ... 1.2 s, 812 in / 24 out tokens, $0.00\n"
        "  I will look.\n"
        "$ python3 --version\n"
        "  Python 3.11.2\n"
        "  exit 0 in 1.2 s\n"
        "turn 1   model call ... 1.2 s, 900 in / 9 out tokens, $0.0013\n"
    )


def test_steps_that_were_recorded_before_look_the_same() -> None:
    started = step("turn-1.model-1", "model", "Started")
    ended = step("turn-1.model-1", "model", inputTokens=1, outputTokens=2, stop="end_turn")
    assert shown(ended) == shown(started, ended) == shown(started, started, ended, ended)


def test_a_line_that_is_interrupted_is_written_again() -> None:
    first = step("turn-1.model-1", "model", "Started")
    assert shown(
        first, step("turn-1.tool-1", "tool", tool="read_file", path="/a", size=3), step("turn-1.model-1", "model")
    ) == ("turn 1   model call ... \nread     /a (3 bytes)\nturn 1   model call ... 1.2 s, unknown tokens, $0.00\n")


@pytest.mark.parametrize("outcome", ["Failed", "Uncertain", "Cancelled"])
def test_a_step_without_a_result(outcome: str) -> None:
    lines = shown(
        step("turn-2.model-1", "model", "Started"), step("turn-2.model-1", "model", outcome, error="overloaded")
    ).splitlines()
    assert lines == ["turn 2   model call ... ", f"  model {outcome.lower()}: overloaded"]


def test_failures_of_tools_and_long_output() -> None:
    assert "  exit 3 in 1.2 s" in shown(step("t", "tool", tool="shell", command="false", exitCode=3, output=""))
    assert "stopped: out of time" in shown(step("t", "tool", tool="shell", command="x", exitCode=143, timedOut=True))
    assert "  read_file: no such file" in shown(step("t", "tool", tool="read_file", error="no such file"))
    many = shown(step("t", "tool", tool="shell", command="seq 100", exitCode=0, output="\n".join(map(str, range(100)))))
    assert "  19\n  ... 80 more lines\n" in many


def test_a_command_of_several_lines() -> None:
    assert shown(step("t", "tool", "Started", tool="shell", command="cat <<E\nx\nE")) == "$ cat <<E\n> x\n> E\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_that_was_run_can_steer_the_terminal(terminal: bool) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202eabc\x9bX\rover\x00"
    text = shown(step("t", "tool", tool="shell", command=evil, exitCode=0, output=evil), terminal=terminal)
    for bad in ("\x1b]", "\x1b[2J", "\u202e", "\x9b", "\x07", "\x00", "\rover"):
        assert bad not in text
    assert "\\x1b]0;owned\\x07" in text


def test_markup_is_text() -> None:
    assert "[bold]x[/]" in shown(
        step("t", "tool", tool="shell", command="echo '[bold]x[/]'", exitCode=0), terminal=True
    )


def test_a_terminal_has_colours() -> None:
    assert "\x1b[1m$ ls" in shown(step("t", "tool", "Started", tool="shell", command="ls"), terminal=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.00", "$0.00"),
        ("1", "$1.00"),
        ("0.5", "$0.50"),
        ("0.054399", "$0.0544"),
        ("0.000000001", "$0.0001"),
        ("?", "$?"),
    ],
)
def test_amounts_are_rounded_up(text: str, expected: str) -> None:
    assert usd(text) == expected
