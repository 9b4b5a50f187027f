"""The program around the verbs: help, version, unknown verbs, offline verbs, completion."""

import os
import subprocess
import sys

import pytest

from cli.program import PROGRAM, Corral
from corral import __version__
from corral.base import plugins
from corral.cli import verbs

VERBS = sorted(plugins.names(verbs))


def test_help_names_every_verb_with_a_line(corral: Corral) -> None:
    lines = corral("--help").out.splitlines()
    for verb in VERBS:
        (line,) = [line for line in lines if line.split()[:1] == [verb]]
        assert len(line.split()) > 3, line


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(corral: Corral, verb: str) -> None:
    assert f"Usage: corral {verb}" in corral(verb, "--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_on_a_line_of_its_own(corral: Corral, verb: str) -> None:
    _, _, examples = corral(verb, "--help").out.partition("\n  For example:\n")
    assert f"corral {verb}" in examples.partition("\n\n")[0]
    assert all(line.startswith("    ") for line in examples.partition("\n\n")[0].splitlines())


def test_help_imports_nothing_heavy() -> None:
    program = """
import sys
from corral.cli.main import main
sys.argv = ["corral", "--help"]
try:
    main()
finally:
    heavy = {"pydantic", "httpx2", "yaml", "rich", "anyio", "asyncio", "sqlalchemy", "starlette", "jsonpath"}
    print("heavy:", *sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy:"


def test_no_verb_and_wrong_verbs(corral: Corral) -> None:
    assert "Usage: corral" in corral(code=2).err
    assert "Did you mean apply?" in corral("aply", code=2).err
    assert "There is no verb 'xyzzy'." in corral("xyzzy", code=2).err


def test_version(corral: Corral) -> None:
    assert corral("--version").out == f"corral {__version__}\n"
    assert corral("version").out.startswith(f"corral {__version__} (Python 3.")


def test_explain_needs_no_server(corral: Corral) -> None:
    assert "keepAlive" in corral("explain", "agentrun.spec").out
    assert "The fields here are" in corral("explain", "agentrun.spec.nope", code=2).err


def test_completion_is_offered(corral: Corral) -> None:
    env = {"_CORRAL_COMPLETE": "complete_bash", "COMP_WORDS": "corral ap", "COMP_CWORD": "1"}
    assert Corral(corral.home, env)().out.split() == ["apply"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(corral: Corral, shell: str) -> None:
    script = corral("completion", shell).out
    assert "_CORRAL_COMPLETE" in script
    assert "\x1b" not in script
    assert "is not a shell" in corral("completion", "cmd", code=2).err


def offered(corral: Corral, line: str) -> list[str]:
    """What bash would offer at the end of the line."""
    env = {"_CORRAL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    return Corral(corral.home, {**corral.env, **env})().out.split()


def test_kinds_and_names_are_completed(server: Corral) -> None:
    for name in ("completed-a", "completed-b"):
        server("apply", "-f", "-", stdin=f"kind: Agent\nmetadata: {{name: {name}}}\n")
    assert offered(server, "corral get agentr") == ["agentrun", "agentruns"]
    assert offered(server, "corral get agents completed-") == ["completed-a", "completed-b"]
    assert offered(server, "corral get agents completed-a completed-") == ["completed-a", "completed-b"]
    assert offered(server, "corral describe agent/completed-") == ["agent/completed-a", "agent/completed-b"]
    assert offered(server, "corral describe -p nowhere agent/comp") == []
    assert offered(server, "corral delete agent completed-b") == ["completed-b"]
    assert "default" in offered(server, "corral get agents -p d")
    assert offered(server, "corral config use l") == ["local"]


def test_completion_without_a_server_offers_what_is_known(corral: Corral) -> None:
    assert offered(corral, "corral get agentr") == ["agentrun", "agentruns"]
    assert offered(corral, "corral get agent/x") == []
    gone = Corral(corral.home, {"CORRAL_URL": "http://127.0.0.1:1", "CORRAL_KEY": "k"})
    assert offered(gone, "corral get agent x") == []


def test_models_are_listed_without_a_server(corral: Corral) -> None:
    titles, *rows = corral("models", "list").out.splitlines()
    assert titles.split() == ["NAME", "ALIASES", "SIZE", "HERE", "DEFAULT"]
    assert len(rows) == 2
    assert "there is no model 'huge'" in corral("models", "pull", "huge", code=2).err


def test_a_reader_that_has_enough_is_no_error(corral: Corral) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*PROGRAM, "explain", "agentrun"], env=corral.environment(), stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([*PROGRAM, "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: stdout cannot be written: No space left on device\n"
