"""`corral run` as a process: with a server of its own, with one that runs, and interrupted."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program import Corral, until
from corral.testing.model import model_process

PROMPT = "Use the shell. [[fake:command=echo hello from $((40+2))]]"
SLEEP = "[[fake:command=sleep 300]]"
MODEL = ("--model", "scripted/default")


def test_the_answer_is_all_of_stdout_and_the_steps_are_on_stderr(corral: Corral) -> None:
    done = corral("run", *MODEL, PROMPT)
    assert done.out == "Done: exit code 0\nhello from 42\n"
    lines = done.err.splitlines()
    assert any(line.startswith("model    scripted/default") for line in lines)
    assert any(line.startswith("sandbox  ready in ") and line.endswith("(bwrap)") for line in lines)
    at = lines.index("$ echo hello from $((40+2))")
    assert lines[at + 1] == "  hello from 42"
    assert lines[at + 2].startswith("  exit 0 in ")
    assert lines[-1].startswith("run run-")
    assert "2 model calls, 1 command, $0.00 of $1.00" in lines[-1]


def test_json_and_a_prompt_on_stdin(corral: Corral) -> None:
    done = corral("run", *MODEL, "-o", "json", "-", stdin=f"{PROMPT}\n")
    report = json.loads(done.out)
    assert set(report) == {
        "run", "phase", "reason", "message", "answer", "costUSD", "turns", "durationSeconds", "steps",
    }  # fmt: skip
    assert (report["phase"], report["costUSD"], report["turns"]) == ("Succeeded", "0.00", 1)
    assert report["answer"] == "Done: exit code 0\nhello from 42"
    assert report["durationSeconds"] > 0
    assert [step["name"] for step in report["steps"]] == ["sandbox", "model", "tool", "model"]
    assert all(step["outcome"] == "Completed" for step in report["steps"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", ""], "the prompt is empty"),
        (["run"], "Missing argument"),
        (["run", "x", "--colour"], "No such option"),
        (["run", "x", "-o", "xml"], "-o xml is not an output format"),
        (["run", "x", "--timeout", "10"], "'10' is not a duration"),
        (["run", "x", "--timeout", "0s"], "longer than nothing"),
        (["run", "x", "--max-cost", "one"], "is not an amount of USD"),
        (["run", "x", "--max-cost", "NaN"], "is not an amount of USD"),
        (["run", "x", "--agent", "a", "--system", "s"], "belong to the agent"),
    ],
)
def test_wrong_usage(corral: Corral, args: list[str], message: str) -> None:
    done = corral(*args, code=2)
    assert message in done.err
    assert done.out == ""
    assert not list(corral.home.iterdir())


def test_what_the_server_refuses(server: Corral) -> None:
    done = server("run", "--agent", "absent", "x", code=1)
    assert "Error (NotFound): " in done.err or "Error (Invalid): " in done.err
    assert "absent" in done.err
    assert done.out == ""
    done = server("run", "--max-cost", "0.001", "x", code=1)
    assert "perRunMaxCostUSD" in done.err
    assert "fix: " in done.err


def test_a_model_that_is_not_known(corral: Corral) -> None:
    done = corral("run", "--model", "nobody/nothing", "x", code=1)
    assert "nobody" in done.err
    assert "fix: " in done.err
    assert "Traceback" not in done.err


def test_a_timeout_fails_the_run(server: Corral) -> None:
    done = server("run", "--timeout", "300ms", f"{SLEEP}", code=4)
    assert "Error (DeadlineExceeded)" in done.err
    assert done.out == ""


def test_a_failed_run_in_json(server: Corral) -> None:
    done = server("run", "-o", "json", "[[fake:stop=refusal]] [[fake:tool_calls=0]]", code=1)
    report = json.loads(done.out)
    assert (report["phase"], report["reason"], report["answer"]) == ("Failed", "ModelRefused", None)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_with_its_own_server(corral: Corral, sig: int) -> None:
    started = corral.start("run", *MODEL, "--keep", SLEEP)
    started.says("$ sleep 300")
    code, out, err = started.end(sig)
    assert code == 130, err
    assert out == ""
    assert "cancelling the run" in err
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "the run is cancelled"


def test_interrupted_on_a_server_that_runs(server: Corral) -> None:
    started = server.start("run", SLEEP)
    started.says("$ sleep 300")
    code, _, err = started.end(signal.SIGINT)
    assert code == 130, err
    (summary,) = [line for line in err.splitlines() if line.startswith("run run-")]
    name = summary.split()[1]
    assert server("get", f"ar/{name}", "-o", "jsonpath={.status.phase}").out == "Cancelled\n"


def test_the_second_interrupt_ends_at_once(server: Corral) -> None:
    """Although the server, which is stopped meanwhile, never says that the run is cancelled."""
    pid = json.loads((server.home / "corral" / "server.json").read_text(encoding="utf-8"))["pid"]
    started = server.start("run", SLEEP)
    started.says("$ sleep 300")
    os.kill(pid, signal.SIGSTOP)
    try:
        started.process.send_signal(signal.SIGINT)
        started.says("cancelling the run")
        assert started.process.poll() is None
        code, _, err = started.end(signal.SIGINT)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code == 130, err


def test_interrupted_when_the_server_is_gone(corral: Corral) -> None:
    up = corral.start("up", "--port", "0", *MODEL)
    up.says("Corral serves")
    started = corral.start("run", SLEEP)
    started.says("$ sleep 300")
    up.end(signal.SIGKILL)
    code, _, err = started.end(signal.SIGINT)
    assert code == 130, err
    assert "cannot be reached" in err
    assert "the run may go on there" in err
    assert "Traceback" not in err
    # And it does, until it is cancelled: nothing of it must be left when the test ends.
    up = corral.start("up", "--port", "0", *MODEL)
    up.says("Corral serves")
    (name,) = corral("get", "ar", "-o", "jsonpath={.items[*].metadata.name}").out.split()
    corral("cancel", f"ar/{name}")
    corral("wait", f"ar/{name}", "--for=jsonpath={.status.phase}=Cancelled", "--timeout=60s")
    sandboxes = corral.home / "corral" / "sandboxes"
    until(lambda: not list(sandboxes.glob("*/workspace")), "the end of the sandbox")
    assert up.end(signal.SIGTERM)[0] == 0


def test_files_can_be_kept(corral: Corral) -> None:
    done = corral("run", *MODEL, "--keep", "[[fake:command=echo kept > result.txt]]")
    (line,) = [line for line in done.err.splitlines() if line.startswith("files    ")]
    assert (Path(line.split(None, 1)[1]) / "result.txt").read_text(encoding="utf-8") == "kept\n"


@pytest.fixture
def priced(corral: Corral) -> Iterator[Corral]:
    """Without a server, and with a model that costs money."""
    with model_process() as url:
        yield Corral(corral.home, {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url})


def test_a_run_that_reaches_its_cap_does_not_wait_for_nobody(priced: Corral) -> None:
    """Its server would end with the command: the run is cancelled, and the user told how a run can wait."""
    done = priced("run", "--model", "anthropic/claude-sonnet-5-5", "--max-cost", "0.01", "x", code=1)
    assert "Error (MaxCostReached): " in done.err
    assert "corral up" in done.err
    assert "cancelling the run" in done.err
    assert done.out == ""


def test_what_a_run_cost(priced: Corral) -> None:
    done = priced("run", "[[fake:tool_calls=0]][[fake:tokens=1000,100]][[fake:answer=done]]")
    assert done.out == "done\n"
    (cost,) = re.findall(r"1000 in / 100 out tokens, (\$0\.\d+)", done.err)
    assert cost != "$0.00"
    assert f"1 model call, 0 commands, {cost} of $1.00" in done.err


def test_the_same_flags_make_one_agent(server: Corral) -> None:
    for _ in range(2):
        server("run", "--system", "Be exact.", "[[fake:tool_calls=0]][[fake:answer=yes]]")
    names = server("get", "agents", "-o", 'jsonpath={.items[?(@.spec.system=="Be exact.")].metadata.name}').out.split()
    assert len(names) == 1
    assert names[0].startswith("run-")


def test_an_agent_that_exists(server: Corral) -> None:
    server("apply", "-f", "-", stdin="kind: Agent\nmetadata: {name: named}\n")
    done = server("run", "--agent", "named", "[[fake:tool_calls=0]][[fake:answer=from named]]")
    assert done.out == "from named\n"


def test_control_characters_reach_a_pipe_but_not_a_terminal(server: Corral) -> None:
    prompt = "[[fake:command=printf '\\033]0;owned\\007']][[fake:answer=\x1b[2Jwiped {tool}]]"
    assert "\x1b[2Jwiped" in server("run", prompt).out
    shown = server.on_terminal("run", prompt)
    assert "\x1b[2J" not in shown
    assert "\x1b]0;owned" not in shown
    assert "\\x1b[2Jwiped" in shown


def test_any_text_survives(server: Corral) -> None:
    out = server("run", "[[fake:tool_calls=0]][[fake:unicode=1]]").out
    assert "\U0001f680" in out
    assert "\u05e9\u05dc\u05d5\u05dd" in out
