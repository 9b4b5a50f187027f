"""JSONPath as kubectl's users write it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cli import jsonpath
from corral.cli.failures import Failure

RUN: dict[str, Any] = {
    "metadata": {"name": "r", "labels": {"app.kubernetes.io/name": "x", "two-words": "y"}},
    "status": {
        "phase": "Succeeded",
        "turns": [{"model": "a", "n": 1}, {"model": "b", "n": 2}],
        "ok": True,
        "none": None,
    },
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.status.phase}", "Succeeded"),
        (".status.phase", "Succeeded"),
        ("status.phase", "Succeeded"),
        ("{$.status.phase}", "Succeeded"),
        ("{.status.turns[0].model}", "a"),
        ("{.status.turns[-1].model}", "b"),
        ("{.status.turns[*].model}", "a b"),
        ("{..model}", "a b"),
        ('{.status.turns[?(@.model=="b")].n}', "2"),
        ("{.metadata.labels.two-words}", "y"),
        (r"{.metadata.labels.app\.kubernetes\.io/name}", "x"),
        ("{.metadata.labels['two-words']}", "y"),
        ('{.metadata.name}{"\\t"}{.status.phase}{"\\n"}', "r\tSucceeded\n"),
        ("name: {.metadata.name}!", "name: r!"),
        ("{.status.ok}", "true"),
        ("{.status.none}", "null"),
        ("{.status.turns[0]}", '{"model": "a", "n": 1}'),
        ("{.missing.path}", ""),
        ('{range .status.turns[*]}{.model}={.n}{"\\n"}{end}', "a=1\nb=2\n"),
        ("{range .status.turns[*]}{$.metadata.name}{.n} {end}.", "r1 r2 ."),
        ("{range .status}{range .turns[*]}<{@.n}>{end}{.phase}{end}", "<1><2>Succeeded"),
        ("{range .missing[*]}x{end}", ""),
    ],
)
def test_paths(template: str, expected: str) -> None:
    assert jsonpath.compile(template)(RUN) == expected


@pytest.mark.parametrize(
    "template", ["{.a", "a}", "{.a[}", "{.a[0}", "{.a[?(}", "{range .items[*]}", "{end}", "{range a[}{end}"]
)
def test_what_is_no_path_is_refused_with_an_example(template: str) -> None:
    with pytest.raises(Failure) as caught:
        jsonpath.compile(template)
    assert caught.value.code == 2
    assert "{.status.phase}" in caught.value.fix


def quoted(name: str) -> str:
    """A name in dot notation: what would end it is escaped."""
    return re.sub(r"([.\[\]\\\s{}\"'*])", r"\\\1", name)


# Braces and quotes delimit a template itself; names with them can be written in brackets only.
NAMES = st.text(
    st.sampled_from("ab0-_.[]()\\*$@?,: /#ü\t\n") | st.characters(codec="utf-8", exclude_characters="{}\"'"), min_size=1
)
LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@given(st.lists(NAMES | st.integers(0, 3), min_size=1, max_size=5), LEAVES)
def test_every_leaf_can_be_reached(steps: list[str | int], leaf: Any) -> None:
    document, path = leaf, ""
    for step in reversed(steps):
        document = {step: document} if isinstance(step, str) else [None] * step + [document]
    for step in steps:
        path += f".{quoted(step)}" if isinstance(step, str) else f"[{step}]"
    shown = leaf if isinstance(leaf, str) else json.dumps(leaf)
    assert jsonpath.compile(f"{{{path}}}")(document) == shown
    assert jsonpath.compile(f"<{{${path}}}>")(document) == f"<{shown}>"


@given(st.text())
def test_any_text_is_a_template_or_is_refused(text: str) -> None:
    try:
        template = jsonpath.compile(text)
    except Failure as failure:
        assert failure.code == 2
    else:
        assert isinstance(template(RUN), str)
