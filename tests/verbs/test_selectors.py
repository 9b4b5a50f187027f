"""Selectors: what they select is what their terms say, one by one, and nothing malformed gets through."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.kinds import Problem, Reason
from corral.verbs import selectors

keys = st.sampled_from(["a", "b", "team", "example.com/x"])
values = st.sampled_from(["", "1", "x", "a.b", "A-b_c"])
labels = st.dictionaries(keys, values, max_size=4)
terms = st.lists(st.tuples(keys, st.sampled_from(["=", "==", "!=", "", "!"]), values), max_size=4)


def text_of(term: tuple[str, str, str]) -> str:
    key, op, value = term
    return f"!{key}" if op == "!" else key if op == "" else f"{key}{op}{value}"


def says(have: dict[str, str], term: tuple[str, str, str]) -> bool:
    key, op, value = term
    if op in ("", "!"):
        return (key in have) == (op == "")
    return (have.get(key, "") == value) == (op != "!=")


@given(labels, terms)
def test_labels_fit_when_every_term_does(have: dict[str, str], chosen: list[tuple[str, str, str]]) -> None:
    document = {"metadata": {"labels": have}}
    text = ",".join(map(text_of, chosen))
    assert selectors.labels(text)(document) == all(says(have, term) for term in chosen)


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    for parse in (selectors.labels, selectors.fields):
        try:
            parse(text)({"metadata": {"labels": {}, "name": "x"}})
        except Problem as problem:
            assert problem.reason is Reason.BadRequest
            assert problem.fix


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("metadata.name=x", True),
        ("metadata.name==x", True),
        ("metadata.name!=x", False),
        ("status.phase=Running,spec.keep=true", True),
        ("spec.keep=false", False),
        ("spec.absent=", True),
        ("spec.absent!=y", True),
        ("spec.number=3", True),
    ],
)
def test_fields_are_found_by_their_path(text: str, fits: bool) -> None:
    document: dict[str, Any] = {
        "metadata": {"name": "x"},
        "spec": {"keep": True, "number": 3},
        "status": {"phase": "Running"},
    }
    assert selectors.fields(text)(document) is fits


@pytest.mark.parametrize(
    ("text", "name"),
    [("metadata.name=x", "x"), ("a=b, metadata.name = y", "y"), ("metadata.name!=x", None), ("", None)],
)
def test_a_name_is_found_in_a_selector(text: str, name: str | None) -> None:
    assert selectors.name_in(text) == name
