"""JSONPath as kubectl's users write it."""

from typing import Any

import pytest

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
    ],
)
def test_paths(template: str, expected: str) -> None:
    assert jsonpath.compile(template)(RUN) == expected


@pytest.mark.parametrize("template", ["{.a", "a}", "{.a[}", "{.a[0}", "{.a[?(}", "{range .items[*]}"])
def test_what_is_no_path_is_refused_with_an_example(template: str) -> None:
    with pytest.raises(Failure) as caught:
        jsonpath.compile(template)
    assert caught.value.code == 2
    assert "{.status.phase}" in caught.value.fix
