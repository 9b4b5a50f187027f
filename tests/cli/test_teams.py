"""A team's tasks as lines for people."""

from typing import Any

import pytest

from cli.program import Corral
from corral.cli import teams


def test_lines() -> None:
    team: dict[str, Any] = {
        "summary": {"title": "Waiting for you", "message": "One task failed.", "action": "ManageTasks"},
        "items": [
            {"id": "task-1", "name": "squares", "state": "Failed", "attempt": 2, "progress": "half"},
            {
                "id": "task-2",
                "name": "sum",
                "state": "Waiting",
                "attempt": 1,
                "waitingFor": ["task-1"],
                "assignment": "Add.",
            },
        ],
    }
    assert list(teams.lines("r", team)) == [
        "Waiting for you: One task failed.",
        "",
        "TASK      STATE     ATTEMPT   WAITS FOR   PROGRESS",
        "squares   Failed    2         -           half",
        "sum       Waiting   1         squares     Add.",
        "Next: corral agentrun retry-task, redirect-task or cancel-task r TASK",
    ]
    assert list(teams.lines("r", {})) == ["The run has no team."]


@pytest.mark.parametrize("words", [["retry-task"], ["redirect-task", "differently"], ["cancel-task"]])
def test_a_run_without_a_team(server: Corral, words: list[str]) -> None:
    server("apply", "-f", "-", stdin="kind: Agent\nmetadata: {name: alone}\n")
    server("create", "agentrun", "alone", "--agent", "alone", "--prompt", "x", "--parallelism", "2")
    assert server("get", "ar/alone", "-o", "jsonpath={.spec.parallelism}").out == "2\n"
    verb, *rest = words
    done = server("agentrun", verb, "alone", "squares", *rest, code=1)
    assert "Error (NotFound): there is no task 'squares'" in done.err
    assert "The run has no team." in done.err
