"""The documents say what is there: each verb and option, each environment variable, and links that lead somewhere."""

import json
import re
from pathlib import Path

import pytest
import typer

from corral.base import plugins
from corral.cli import main, manifests, verbs
from corral.kinds import scheme

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "corral"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
EVERYWHERE = {"--help", "--project", "-h", "-p"}


def section(text: str, title: str) -> str:
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has a section {title!r}"
    return found[1]


def options(command: object) -> set[str]:
    """All options of a command and the commands below it."""
    found = {name for p in command.params for name in p.opts if name.startswith("-")}  # type: ignore[attr-defined]
    for below in getattr(command, "commands", {}).values():
        found |= options(below)
    return found


@pytest.mark.parametrize("verb", sorted(plugins.names(verbs)))
def test_every_verb_and_option_is_documented(verb: str) -> None:
    group = typer.main.get_command(main.app)
    command = group.get_command(typer.Context(group), verb)  # type: ignore[attr-defined]
    text = section((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), verb)
    words = set(re.findall(r"(?<![-\w])--?[a-zA-Z][-a-z]*", text))
    assert options(command) - EVERYWHERE <= words


def test_every_section_is_a_verb() -> None:
    titles = re.findall(r"^## (.+)$", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(titles) == sorted(plugins.names(verbs))


def test_every_environment_variable_is_documented() -> None:
    pattern = re.compile(r"""["'](CORRAL_[A-Z_]+|[A-Z]+_(?:API_KEY|BASE_URL))["']""")
    used = {name for file in SOURCES.rglob("*.py") for name in pattern.findall(file.read_text(encoding="utf-8"))}
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert {"CORRAL_HOME", "CORRAL_URL", "ANTHROPIC_API_KEY"} <= used
    # NODUS_* are printed for other programs and read by none of ours.
    assert {name for name in used if not name.startswith("NODUS_") and name not in text} == set()


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8")):
        assert re.match(r"https?://", target) or (file.parent / target).exists(), target


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.name)
def test_examples_are_valid(file: Path) -> None:
    for document in manifests.read(str(file)):
        assert scheme.decode(json.dumps(document)).kind == document["kind"]
