"""Patches: merge patches follow RFC 7396, and whatever a patch makes is decoded again as strictly as a new object."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.base.mergepatch import merge
from corral.kinds import Problem, Reason, scheme
from corral.kinds.agent import Agent
from corral.verbs import patches

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # the examples of RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


@given(documents, documents)
def test_merging_again_changes_nothing_more_and_neither_argument(target: Any, patch: Any) -> None:
    before = json.dumps([target, patch])
    once = merge(target, patch)
    assert merge(once, patch) == once
    assert json.dumps([target, patch]) == before


@given(st.dictionaries(st.sampled_from(["spec", "metadata", "kind", "status", "x"]), documents, max_size=3))
def test_no_patch_gets_past_the_decoding(patch: dict[str, Any]) -> None:
    agent = {"apiVersion": "nodus.dev/v1", "kind": "Agent", "metadata": {"name": "a"}, "spec": {}}
    try:
        made = scheme.decode(json.dumps(patches.merging(patch)(agent)), Agent)
    except Problem as problem:
        assert problem.reason in (Reason.Invalid, Reason.BadRequest)
        return
    assert Agent.model_validate(made.wire()).wire() == made.wire()


@given(documents)
def test_any_json_is_a_json_patch_or_a_bad_request(change: Any) -> None:
    try:
        patches.operations(change)({"a": [1, {"b": 2}]})
    except Problem as problem:
        assert problem.reason in (Reason.Invalid, Reason.BadRequest)
