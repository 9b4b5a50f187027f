"""The program around the verbs: help, version, unknown verbs, offline verbs, completion."""

import os
import subprocess

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
