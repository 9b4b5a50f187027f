"""The three-way merge: it changes what the manifest says, removes what it no longer says, and leaves the rest."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.base.mergepatch import merge
from corral.sdk import Client
from corral.sdk._merge import LAST_APPLIED, annotated, patch_for
from sdk.stub_server import Stub, answer

AGENT: dict[str, Any] = {"kind": "Agent", "metadata": {"name": "a"}, "spec": {"system": "s", "model": {"name": "m"}}}


def live(manifest: dict[str, Any], **server_sets: Any) -> dict[str, Any]:
    """The object after a create, with what the server fills in."""
    document: dict[str, Any] = json.loads(json.dumps(annotated(manifest)))
    document["spec"] = {**server_sets, **document.get("spec", {})}
    document["metadata"]["uid"] = "u"
    return document


def test_the_same_manifest_changes_nothing() -> None:
    assert patch_for(AGENT, live(AGENT, maxTokens=8192)) == {}


def test_what_is_no_longer_said_is_removed_and_defaults_stay() -> None:
    manifest = {**AGENT, "spec": {"model": {"name": "other"}}}
    patch = patch_for(manifest, live(AGENT, maxTokens=8192))
    assert patch["spec"] == {"system": None, "model": {"name": "other"}}
    assert json.loads(patch["metadata"]["annotations"][LAST_APPLIED]) == manifest


def test_what_others_changed_is_set_back_and_what_they_added_stays() -> None:
    now = live(AGENT)
    now["spec"] |= {"system": "theirs", "maxTokens": 5}
    now["metadata"]["labels"] = {"theirs": "1"}
    assert patch_for(AGENT, now)["spec"] == {"system": "s"}
    assert "labels" not in patch_for(AGENT, now)["metadata"]


def test_json_tells_true_from_one() -> None:
    assert patch_for({"kind": "X", "spec": {"n": True, "l": [1]}}, {"spec": {"n": 1, "l": [True]}})["spec"] == {
        "n": True,
        "l": [1],
    }


def test_values_of_a_secret_are_not_written_into_annotations() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "spec": {"stringData": {"token": "hunter2"}}}
    assert annotated(secret) == secret
    patch = patch_for(secret, {"kind": "Secret", "metadata": {"name": "s"}, "spec": {}})
    assert patch == {"spec": {"stringData": {"token": "hunter2"}}}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2)
)
specs = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), values, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner | values, max_size=3),
    max_leaves=8,
)


def without_null(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: without_null(item) for key, item in value.items() if item is not None}


@given(first=specs, second=specs)
def test_applying_a_manifest_makes_the_object_say_it(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Of an object that only apply has written, the second manifest remains; then there is nothing left to do."""
    first, second = without_null(first), without_null(second)
    now = live({"kind": "X", "metadata": {"name": "x"}, "spec": first})
    manifest = {"kind": "X", "metadata": {"name": "x"}, "spec": second}
    after = merge(now, patch_for(manifest, now))
    assert after["spec"] == second
    assert patch_for(manifest, after) == {} or after == merge(after, patch_for(manifest, after))


@pytest.mark.parametrize(
    ("answers", "action", "methods"),
    [
        ([answer("404 Not Found", "{}"), answer("201 Created", json.dumps(AGENT))], "created", ["GET", "POST"]),
        ([answer("200 OK", json.dumps(live(AGENT)))], "unchanged", ["GET"]),
    ],
)
async def test_apply(stub: Stub, answers: list[bytes | None], action: str, methods: list[str]) -> None:
    stub.answers = answers
    async with Client(stub.url, "k") as client:
        assert (await client.apply("agents", AGENT)).action == action
    assert [request.method for request in stub.received] == methods


async def test_apply_that_changes_nothing_on_the_server_is_unchanged(stub: Stub) -> None:
    """The server may write a value in another form than the manifest, such as 0.50 for 0.5."""
    now = live(AGENT)
    now["metadata"]["resourceVersion"] = "4"
    now["spec"]["system"] = "S"
    stub.answers = [answer("200 OK", json.dumps(now))]
    async with Client(stub.url, "k") as client:
        assert (await client.apply("agents", AGENT)).action == "unchanged"
    assert [request.method for request in stub.received] == ["GET", "PATCH"]
