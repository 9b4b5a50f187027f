"""kill -9 of the server at the worst moments: what is recorded is not repeated, and the run finishes."""

import json
import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from corral.testing.model import model_process
from crash.platform_process import Platform, platform, until


@pytest.fixture
def model() -> Iterator[str]:
    with model_process() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def corral(request: pytest.FixtureRequest, tmp_path: Path, model: str) -> Iterator[Platform]:
    database = ""
    if request.param == "postgres":
        database = request.getfixturevalue("postgres").database()
    with platform(tmp_path / "home", model, database) as running:
        yield running


def stats(model: str) -> dict[str, Any]:
    with httpx2.Client(trust_env=False) as client:
        return dict(client.get(f"{model}/stats").json())


def test_killed_during_a_command(corral: Platform, model: str) -> None:
    script = [
        {"tool": "shell", "args": {"command": "echo one >> log; sleep 1.5; echo two >> log"}},
        {"tool": "shell", "args": {"command": "cat log"}},
        {"text": "done"},
    ]
    name = corral.create(f"go [[fake:script={json.dumps(script)}]]")
    corral.step(name, "turn-1.tool-1.1", "Started")
    corral.kill()
    corral.start()
    status = corral.phase(name, "Succeeded", "Failed", "Waiting")
    assert status["phase"] == "Succeeded", status
    assert status["dispatches"] == 2
    tools = [step for step in corral.steps(name) if step["name"] == "tool"]
    assert [step["detail"]["exitCode"] for step in tools] == [0, 0]
    assert tools[1]["detail"]["output"].split() == ["one", "two"]
    assert stats(model)["duplicates"] == 0
    until(lambda: corral.sandboxes() == [], "the end of the sandbox")


def test_a_command_that_ended_while_the_server_was_down_is_collected(corral: Platform, tmp_path: Path) -> None:
    script = [
        {"tool": "shell", "args": {"command": "echo begun; sleep 0.5; echo ended; exit 7"}},
        {"text": "done"},
    ]
    name = corral.create(f"go [[fake:script={json.dumps(script)}]]")
    corral.step(name, "turn-1.tool-1.1", "Started")
    corral.kill()
    uid = corral.sandboxes()[0]
    status = corral.home / "sandboxes" / uid / "spool" / "turn-1_tool-1_1.status"
    until(lambda: "exited" in status.read_text(), "the end of the command")
    corral.start()
    assert corral.phase(name, "Succeeded", "Failed", "Waiting")["phase"] == "Succeeded"
    tool = corral.step(name, "turn-1.tool-1.1", "Completed")
    assert tool["detail"]["exitCode"] == 7
    assert tool["detail"]["output"].split() == ["begun", "ended"]


def test_killed_during_a_model_call(corral: Platform, model: str) -> None:
    name = corral.create("go [[fake:delay=1.5]] [[fake:tool_calls=1]] [[fake:command=echo hello]]")
    corral.step(name, "turn-1.model-1", "Started")
    corral.kill()
    corral.start()
    status = corral.phase(name, "Succeeded", "Failed", "Waiting")
    assert status["phase"] == "Succeeded", status
    first = corral.step(name, "turn-1.model-1", "Completed")
    assert first["attempt"] == 2
    lost = first["detail"]["attempts"][0]
    assert lost["outcome"] == "Uncertain"
    # The lost call is charged at its reservation, and the sums agree.
    total = sum(Decimal(step["costUSD"]) for step in corral.steps(name))
    assert Decimal(status["cost"]["totalUSD"]) == total
    assert Decimal(first["costUSD"]) > Decimal(lost["costUSD"]) > 0
    assert Decimal(status["cost"]["heldUSD"]) == 0
    assert total <= Decimal(status["cost"]["limitUSD"])


def test_killed_during_a_call_on_the_users_own_key(corral: Platform, model: str) -> None:
    path = "/apis/nodus.dev/v1/namespaces/default"
    secret = {"kind": "Secret", "metadata": {"name": "own"}, "spec": {"stringData": {"KEY": "sk-own"}}}
    assert corral.api("POST", f"{path}/secrets", json=secret).status_code == 201
    own = {"access": "BYOK", "name": "claude-sonnet-5-5", "apiKeySecret": "own"}
    name = corral.create("go [[fake:delay=30]]", model=own)
    corral.step(name, "turn-1.model-1", "Started")
    corral.kill()
    corral.start()
    status = corral.phase(name, "Succeeded", "Failed", "Waiting")
    assert (status["phase"], status["reason"]) == ("Waiting", "NeedsResolution")
    assert "turn-1.model-1" in status["message"]
    assert status["cost"]["totalUSD"] == "0.00"


def test_completed_steps_are_not_repeated_after_a_kill(corral: Platform, model: str) -> None:
    name = corral.create("go [[fake:tool_calls=4]] [[fake:command=echo {n} >> log; cat log; sleep 0.4]]")
    for killed in range(3):
        corral.step(name, f"turn-1.tool-{killed + 1}.1", "Started")
        corral.kill()
        corral.start()
    status = corral.phase(name, "Succeeded", "Failed", "Waiting")
    assert status["phase"] == "Succeeded", status
    last = corral.step(name, "turn-1.tool-4.1", "Completed")
    assert len(last["detail"]["output"].split()) == 4
    assert stats(model)["duplicates"] == 0


def test_a_lost_sandbox_needs_a_person_and_nothing_is_repeated(corral: Platform, model: str) -> None:
    name = corral.create("go [[fake:command=sleep 30]]")
    corral.step(name, "turn-1.tool-1.1", "Started")
    corral.kill()
    meta = json.loads((corral.home / "sandboxes" / corral.sandboxes()[0] / "meta.json").read_text())
    _kill_sandbox(meta)
    corral.start()
    status = corral.phase(name, "Succeeded", "Failed", "Waiting")
    assert (status["phase"], status["reason"]) == ("Waiting", "NeedsResolution")
    assert "sleep 30" in status["message"]
    patch = {"spec": {"state": "Cancelled"}}
    headers = {"Content-Type": "application/merge-patch+json"}
    path = f"/apis/nodus.dev/v1/namespaces/default/agentruns/{name}"
    assert corral.api("PATCH", path, content=json.dumps(patch), headers=headers).status_code == 200
    corral.phase(name, "Cancelled")
    until(lambda: corral.sandboxes() == [], "the end of the sandbox")


def _kill_sandbox(meta: dict[str, Any]) -> None:
    os.kill(int(meta["pid"]), signal.SIGKILL)


def test_sigterm_leaves_the_run_to_the_next_server(corral: Platform) -> None:
    name = corral.create("go [[fake:command=sleep 1; echo slept]]")
    corral.step(name, "turn-1.tool-1.1", "Started")
    assert corral.stop() == 0
    corral.start()
    assert corral.phase(name, "Succeeded", "Failed", "Waiting")["phase"] == "Succeeded"
    assert corral.step(name, "turn-1.tool-1.1", "Completed")["detail"]["output"].strip() == "slept"


def test_the_key_of_the_model_is_nowhere(corral: Platform) -> None:
    name = corral.create("go [[fake:command=env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n']]")
    corral.phase(name, "Succeeded")
    assert corral.stop() == 0
    for file in corral.home.rglob("*"):
        if file.is_file():
            assert b"sk-canary" not in file.read_bytes(), file
    corral.start()
