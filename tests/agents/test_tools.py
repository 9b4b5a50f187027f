"""Tools in a real sandbox, through a whole run: what the model is told, what people see, and what is kept."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from house import House, house


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        await running.agent()
        yield running


def script(*calls: dict[str, Any], answer: str = "{tool}") -> str:
    steps = [*calls, {"text": answer}]
    return f"go [[fake:script={json.dumps(steps)}]]"


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "shell", "args": {"command": command, **more}}


async def test_exit_code_stdout_and_stderr_reach_the_model(here: House) -> None:
    _, steps, answer = await here.finished(script(shell("echo out; echo err >&2; exit 3")))
    assert answer.splitlines() == ["exit code 3", "out", "[stderr]", "err"]
    detail = next(step["detail"] for step in steps if step["name"] == "tool")
    assert (detail["command"], detail["exitCode"]) == ("echo out; echo err >&2; exit 3", 3)


async def test_long_output_is_shortened_and_kept_whole_in_a_file(here: House) -> None:
    command = "for i in $(seq 1 100000); do echo line $i; done"
    _, steps, answer = await here.finished(
        script(shell(command), shell("wc -c < $(ls /tmp/corral/*.stdout); tail -1 /tmp/corral/*.stdout"))
    )
    tools = [step for step in steps if step["name"] == "tool"]
    shown = tools[0]["detail"]["output"]
    assert "line 1\n" in shown
    assert shown.rstrip().endswith("line 100000")
    assert len(shown) < 5000
    assert tools[0]["detail"]["size"] == 1_088_895
    assert answer.split() == ["exit", "code", "0", "1088895", "line", "100000"]


async def test_the_model_is_told_where_the_rest_is(here: House) -> None:
    _, _, answer = await here.finished(script(shell("head -c 200000 /dev/zero | tr '\\0' x")))
    assert "stdout has 200000 bytes; its first and last 8192 are shown; all of it is in /tmp/corral/" in answer
    assert len(answer) < 20_000


async def test_endless_output_is_counted_and_does_not_fill_anything(here: House) -> None:
    _, steps, answer = await here.finished(script(shell("yes | head -c 60000000; exit 5")))
    detail = next(step["detail"] for step in steps if step["name"] == "tool")
    assert (detail["exitCode"], detail["size"]) == (5, 60_000_000)
    assert "its first 16777216 bytes is in" in answer


async def test_binary_output_becomes_safe_text(here: House) -> None:
    command = r"printf '\x00\xff\xfe\xed\xa0\x80 end \xf0\x9f\x9a\x80'; touch $'a\nb' $'c\xff'; ls | cat -v >/dev/null"
    status, _, answer = await here.finished(script(shell(command)))
    assert status["phase"] == "Succeeded"
    assert answer.endswith(" end \U0001f680")
    assert "\x00" not in answer


async def test_a_time_limit_ends_the_command_and_everything_it_started(here: House) -> None:
    command = "setsid sleep 300 & (sleep 301 &) ; echo begun; sleep 302"
    _, steps, answer = await here.finished(
        script(shell(command, timeout_seconds=1), shell("ps -e -o args= 2>/dev/null | grep -c '[s]leep 30' || true"))
    )
    first, second = (step["detail"] for step in steps if step["name"] == "tool")
    assert first["timedOut"]
    assert "begun" in first["output"]
    assert second["output"].strip() in ("0", "")
    assert "exit code 0" in answer


async def test_files_are_written_and_read(here: House) -> None:
    text = "first\nsecond\nthird\n"
    write = {"tool": "write_file", "args": {"path": "deep/er/file.txt", "content": text}}
    read = {"tool": "read_file", "args": {"path": "/workspace/deep/er/file.txt", "first_line": 2, "max_lines": 1}}
    _, steps, answer = await here.finished(script(write, shell("cat deep/er/file.txt"), read))
    assert answer == "second"
    details = [step["detail"] for step in steps if step["name"] == "tool"]
    assert details[0] == {"tool": "write_file", "path": "deep/er/file.txt", "size": len(text)}
    assert details[1]["output"] == text


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"tool": "read_file", "args": {"path": "/absent"}}, "/absent could not be read"),
        ({"tool": "read_file", "args": {"path": "/etc"}}, "could not be read"),
        ({"tool": "write_file", "args": {"path": "/usr/x", "content": ""}}, "could not be written"),
        ({"tool": "shell", "args": {"cmd": "ls"}}, "its arguments are wrong: cmd: Extra inputs are not permitted"),
        ({"tool": "fly", "args": {}}, "There is no tool 'fly'; the tools are shell, read_file, write_file."),
    ],
)
async def test_wrong_calls_are_told_to_the_model(here: House, call: dict[str, Any], told: str) -> None:
    status, steps, answer = await here.finished(script(call))
    assert status["phase"] == "Succeeded"
    assert told in answer
    assert next(step["detail"] for step in steps if step["name"] == "tool")["error"]


async def test_a_turn_has_a_limit_of_tool_calls(tmp_path: Path) -> None:
    async with house(tmp_path / "home") as here:
        await here.agent(maxToolCalls=2)
        status, steps, _ = await here.finished("go [[fake:tool_calls=50]] [[fake:command=echo hi]]")
    assert (status["phase"], status["reason"]) == ("Failed", "MaxToolCallsReached")
    assert len([step for step in steps if step["name"] == "tool"]) == 2


async def test_secrets_are_files_of_the_sandbox_and_shown_to_nobody(tmp_path: Path) -> None:
    value = "s3cr3t-canary-value"
    home = tmp_path / "home"
    async with house(home) as here:
        secret = {"kind": "Secret", "metadata": {"name": "db"}, "spec": {"stringData": {"PASSWORD": value}}}
        created = await here.post("secrets", secret)
        assert created.status_code == 201
        assert value not in created.text
        assert created.json()["status"]["keys"] == ["PASSWORD"]
        await here.agent(secrets=["db"], env=[{"name": "GREETING", "value": "hi"}])
        command = "echo $GREETING; cd /run/secrets; stat -c %a PASSWORD; tr a-z A-Z < PASSWORD; cat PASSWORD; env"
        _, steps, answer = await here.finished(script(shell(command)))
        listed = await here.client.get("/apis/nodus.dev/v1/secrets")
        assert value not in listed.text + answer + json.dumps(steps)
    assert "hi\n400\nS3CR3T-CANARY-VALUE[secret PASSWORD]" in answer
    for file in home.rglob("*"):
        if file.is_file():
            assert value.encode() not in file.read_bytes(), file


async def test_setup_runs_once_in_the_working_directory_before_the_model(tmp_path: Path) -> None:
    async with house(tmp_path / "home") as here:
        await here.agent(workingDir="/project/src", setup="pwd > where; echo ready >> ready")
        status, steps, answer = await here.finished(script(shell("cat where ready; pwd")), keepAlive=False)
    assert answer.split() == ["exit", "code", "0", "/project/src", "ready", "/project/src"]
    assert [step["name"] for step in steps[:3]] == ["sandbox", "setup", "model"]
    assert status["turns"][0]["toolCalls"] == 1


async def test_a_setup_that_fails_ends_the_run_before_any_model_call(tmp_path: Path) -> None:
    async with house(tmp_path / "home") as here:
        await here.agent(setup="echo no compiler >&2; exit 4")
        status, steps, _ = await here.finished("go")
    assert (status["phase"], status["reason"]) == ("Failed", "SetupFailed")
    assert "no compiler" in status["message"]
    assert [step["name"] for step in steps] == ["sandbox", "setup"]


@pytest.mark.parametrize("path", ["workspace", "/", "/usr/x", "/a/../etc", "/a//b", "/tmp"])
async def test_a_working_directory_is_the_runs_own(tmp_path: Path, path: str) -> None:
    async with house(tmp_path / "home") as here:
        refused = await here.post("agents", {"kind": "Agent", "metadata": {"name": "a"}, "spec": {"workingDir": path}})
    assert refused.status_code == 422
    assert refused.json()["details"]["causes"][0]["field"] == "spec.workingDir"
