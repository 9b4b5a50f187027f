"""JSON objects with attributes."""

import pickle

import pytest

from corral.sdk.views import View, view

DOCUMENT = {"cost": {"totalUSD": "0.10"}, "turns": [{"routedBy": "fixed"}], "items": [1], "baseURL": "x"}


def test_fields_are_attributes_by_both_names() -> None:
    seen = view(DOCUMENT)
    assert seen.cost.total_usd == seen.cost.totalUSD == seen["cost"]["totalUSD"] == "0.10"
    assert (seen.turns[0].routed_by, seen.base_url) == ("fixed", "x")


def test_a_view_is_the_document() -> None:
    seen = view(DOCUMENT)
    assert seen == DOCUMENT
    assert seen["items"] == [1]
    assert type(pickle.loads(pickle.dumps(seen)).cost) is View
    assert view(seen) is seen


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no field 'answer' here; there are cost, turns, items, baseURL"):
        _ = view(DOCUMENT).answer
    assert view(DOCUMENT).get("answer") is None
    assert not hasattr(view({}), "phase")
