"""Decoding is strict, names every wrong field with a fix, and explaining knows every field."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.kinds import Problem, Reason, parse, scheme
from corral.kinds.agentrun import INPUT_LIMIT

RUN: dict[str, Any] = {"apiVersion": "nodus.dev/v1", "kind": "AgentRun", "metadata": {"name": "r"}}


def refusal(document: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        scheme.decode(json.dumps(document))
    return caught.value


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"agent": "a", "input": "x", "keep_alive": True}, "spec.keep_alive"),
        ({"agent": "a", "input": "x", "keepAlive": "yes"}, "spec.keepAlive"),
        ({"agent": "a", "input": "x", "keepAlive": 1}, "spec.keepAlive"),
        ({"agent": "a", "input": "x", "parallelism": "4"}, "spec.parallelism"),
        ({"agent": "a", "input": "x", "parallelism": 33}, "spec.parallelism"),
        ({"agent": "A", "input": "x"}, "spec.agent"),
        ({"agent": True, "input": "x"}, "spec.agent"),
        ({"input": "x"}, "spec.agent"),
        ({"agent": "a", "input": None}, "spec.input"),
        ({"agent": "a", "input": "x" * (INPUT_LIMIT + 1)}, "spec.input"),
        ({"agent": "a", "input": "\u00e9" * (INPUT_LIMIT // 2 + 1)}, "spec.input"),
        ({"agent": "a", "input": "x", "deadline": "2099-01-01T00:00:00"}, "spec.deadline"),
        ({"agent": "a", "input": "x", "deadline": "soon"}, "spec.deadline"),
        ({"agent": "a", "input": "x", "deadline": 5}, "spec.deadline"),
    ],
)
def test_each_wrong_field_is_named(spec: dict[str, Any], field: str) -> None:
    problem = refusal({**RUN, "spec": spec})
    assert problem.reason is Reason.Invalid
    assert [cause.field for cause in problem.causes] == [field]
    assert problem.fix
    assert len(problem.message) < 2000


def test_all_wrong_fields_are_named_at_once() -> None:
    problem = refusal({**RUN, "metadata": {"name": "Bad"}, "spec": {"x": 1, "input": ""}, "extra": 1})
    assert {cause.field for cause in problem.causes} == {
        "metadata.name", "spec.agent", "spec.input", "spec.x", "extra"
    }  # fmt: skip


def test_input_may_be_as_long_as_the_limit_and_any_json() -> None:
    for value in ("x" * INPUT_LIMIT, {"a": [1, None, "\u0000"]}, 0, False, [1]):
        scheme.decode(json.dumps({**RUN, "spec": {"agent": "a", "input": value}}))


@pytest.mark.parametrize(
    "body", ['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', "NaN", "[Infinity]", '"\\ud800"', "{'a': 1}", ""]
)
def test_what_is_not_strictly_json_is_a_bad_request(body: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(body)
    assert caught.value.reason is Reason.BadRequest


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    with pytest.raises(Problem):
        scheme.decode(body)


@pytest.mark.parametrize("cls", list(scheme), ids=lambda cls: cls.__name__)
def test_every_field_of_every_kind_is_explained(cls: Any) -> None:
    def walk(path: str, model: Any) -> None:
        shown = scheme.explain(path)
        for name, field in model.model_fields.items():
            if not field.exclude:
                assert (field.alias or name) in shown, f"{path} does not show {name}"
        if path.count(".") < 3:
            for name, field in model.model_fields.items():
                inner = field.annotation
                if isinstance(inner, type) and hasattr(inner, "model_fields"):
                    walk(f"{path}.{field.alias or name}", inner)

    walk(cls.plural, cls)
    with pytest.raises(Problem):
        scheme.explain(f"{cls.plural}.nothing")
