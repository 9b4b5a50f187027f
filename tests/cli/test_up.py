"""`corral up` as a process: what it prints, how it stops, and what goes on after it."""

import json
import signal
import socket
import stat

from cli.program import Corral, Started, until

MODEL = ("--model", "scripted/default")


def up(corral: Corral, *args: str) -> Started:
    started = corral.start("up", "--port", "0", *MODEL, *args)
    started.says("Corral serves http://127.0.0.1:")
    return started


def stop(started: Started, sig: int = signal.SIGTERM) -> tuple[str, str]:
    code, out, err = started.end(sig)
    assert code == 0, err
    assert err.splitlines()[-1] == "Corral has stopped."
    assert "Traceback" not in err
    return out, err


def test_the_key_is_shown_only_when_asked_for(corral: Corral) -> None:
    out, err = stop(up(corral), signal.SIGINT)
    assert out == ""
    key = (corral.home / "corral" / "key").read_text(encoding="ascii").strip()
    assert key not in err
    out, _ = stop(up(corral, "--show-key"))
    assert out == f"{key}\n"


def test_the_address_is_for_the_user_alone_and_goes_with_the_server(corral: Corral) -> None:
    started = up(corral)
    record = corral.home / "corral" / "server.json"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert json.loads(record.read_text(encoding="utf-8"))["pid"] == started.process.pid
    stop(started)
    assert not record.exists()
    assert "Error (NoServer)" in corral("get", "agents", code=1).err


def test_a_run_goes_on_after_a_restart_and_its_command_ran_once(corral: Corral) -> None:
    command = "echo started >> log; while [ ! -e go ]; do sleep 0.05; done; cat log"
    script = [{"tool": "shell", "args": {"command": command}}, {"text": "after: {tool}"}]
    started = up(corral)
    corral("apply", "-f", "-", stdin="kind: Agent\nmetadata: {name: a}\n")
    corral("create", "agentrun", "r", "--agent", "a", "--prompt", f"[[fake:script={json.dumps(script)}]]")
    sandboxes = corral.home / "corral" / "sandboxes"
    until(lambda: any(sandboxes.glob("*/workspace/log")), "the command's start")
    stop(started)
    started = up(corral)
    (log,) = sandboxes.glob("*/workspace/log")
    log.with_name("go").touch()
    assert corral("agentrun", "answer", "r").out == "after: exit code 0\nstarted\n"
    assert int(corral("get", "ar/r", "-o", "jsonpath={.status.dispatches}").out) == 2
    stop(started)


def test_stopping_does_not_wait_for_those_who_watch(corral: Corral) -> None:
    started = up(corral)
    watching = corral.start("get", "agents", "-w", "-o", "name")
    corral("apply", "-f", "-", stdin="kind: Agent\nmetadata: {name: a}\n")
    stop(started)
    assert watching.end(signal.SIGINT)[0] == 130


def test_a_port_that_is_taken(corral: Corral) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = corral("up", "--port", str(port), *MODEL, code=1)
    assert f"Error (CannotStart): cannot listen on 127.0.0.1:{port}" in done.err
    assert "--port" in done.err.partition("fix: ")[2]


def test_a_model_that_cannot_be_had(corral: Corral) -> None:
    done = corral("up", "--port", "0", "--model", "anthropic/claude-sonnet-5-5", code=1)
    assert "Error (CannotStart)" in done.err
    assert "ANTHROPIC_API_KEY" in done.err
