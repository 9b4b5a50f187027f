"""Discovery: what Kubernetes clients ask first, and whether what it promises is so."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from corral.api import discovery
from corral.kinds import scheme
from house import House, house

ROOT = "/apis/nodus.dev/v1"
CALLS = {
    "list": ("GET", ""),
    "create": ("POST", ""),
    "get": ("GET", "/nothing"),
    "update": ("PUT", "/nothing"),
    "patch": ("PATCH", "/nothing"),
    "delete": ("DELETE", "/nothing"),
}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        yield running


async def resources(here: House) -> dict[str, dict[str, Any]]:
    answer = await here.client.get(f"{ROOT}?timeout=32s")
    assert (answer.status_code, answer.json()["kind"]) == (200, "APIResourceList")
    return {entry["name"]: entry for entry in answer.json()["resources"]}


async def test_the_group_leads_to_its_version(here: House) -> None:
    accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}
    assert (await here.client.get("/api", headers=accept)).json() == {"kind": "APIVersions", "versions": []}
    groups = (await here.client.get("/apis", headers=accept)).json()
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    (group,) = groups["groups"]
    assert group["name"] == "nodus.dev"
    assert group["versions"] == [group["preferredVersion"]] == [{"groupVersion": "nodus.dev/v1", "version": "v1"}]
    assert (await here.client.get("/apis/nodus.dev")).json() == {"kind": "APIGroup", "apiVersion": "v1", **group}
    assert (await here.client.get("/apis/nodus.dev/v2")).status_code == 404


async def test_every_kind_is_there_with_its_names_and_scope(here: House) -> None:
    found = await resources(here)
    assert {name for name in found if "/" not in name} == {cls.plural for cls in scheme}
    run = found["agentruns"]
    assert (run["kind"], run["singularName"], run["shortNames"]) == ("AgentRun", "agentrun", ["ar"])
    assert (run["namespaced"], found["events"]["namespaced"]) == (True, False)
    assert run["categories"] == ["all"]


async def test_the_verbs_are_those_that_the_server_takes(here: House) -> None:
    """A verb that is listed is never 405, and one that is not listed always is."""
    for name, entry in (await resources(here)).items():
        if "/" in name:
            continue
        root = f"{ROOT}/namespaces/default" if entry["namespaced"] else ROOT
        assert "watch" in entry["verbs"]
        for verb, (method, suffix) in CALLS.items():
            headers = {"Content-Type": "application/merge-patch+json"} if verb == "patch" else {}
            body = None if method in ("GET", "DELETE") else "{}"
            answer = await here.client.request(method, f"{root}/{name}{suffix}", content=body, headers=headers)
            assert (answer.status_code == 405) == (verb not in entry["verbs"]), (name, verb, answer.text)


async def test_subresources_stand_below_their_kind(here: House) -> None:
    found = await resources(here)
    runs = {name.partition("/")[2]: entry for name, entry in found.items() if name.startswith("agentruns/")}
    assert {"answer", "steps", "messages"} <= set(runs)
    for name, entry in runs.items():
        (verb,) = entry["verbs"]
        method = {"get": "GET", "create": "POST"}[verb]
        answer = await here.client.request(method, f"{ROOT}/namespaces/default/agentruns/nothing/{name}", content="{}")
        # POST is decoded before anybody looks for the run.
        assert answer.status_code == {"get": 404, "create": 422}[verb], (name, answer.text)
        assert entry["kind"] == "AgentRun"


async def test_models_learn_what_fits_a_kind(here: House) -> None:
    found = await resources(here)
    run, secret, event = found["agentruns"], found["secrets"], found["events"]
    assert {"apply", "delete", "wait", "set_state", "record"} <= set(run["x-nodus-mcp-tools"])
    assert run["x-nodus-mcp-states"] == ["Running", "Cancelled"]
    assert "messages" in run["x-nodus-mcp-records"]
    assert found["agents"]["x-nodus-mcp-states"] == ["Running", "Stopped"]
    assert secret["x-nodus-mcp-tools"] == ["apply", "delete"]
    assert not [name for name in event if name.startswith("x-")]


async def test_discovery_asks_for_the_key(here: House) -> None:
    for route in discovery.routes:
        assert (await here.client.get(route.path, headers={"Authorization": ""})).status_code == 401
