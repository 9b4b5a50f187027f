"""Requests that no honest client sends are refused, on both databases; none of them ends as a fault of the server."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from house import PROJECT, House, house

ROOT = "/apis/nodus.dev/v1"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgres").database() if request.param == "postgres" else None


@pytest.fixture
async def here(database: str | None, tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home", database) as running:
        await running.agent("a")
        yield running


def token(value: Any) -> str:
    """A continue token that holds something else than a place."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def run(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "spec": {"agent": "a", "input": "hi [[fake:tool_calls=0]]", **spec}}


async def test_a_nul_is_refused_wherever_an_address_can_hold_it(here: House) -> None:
    for method, path in (
        ("GET", f"{PROJECT}/agents/%00"),
        ("DELETE", f"{PROJECT}/agents/%00"),
        ("GET", f"{ROOT}/namespaces/%00/agents"),
        ("POST", f"{ROOT}/namespaces/%00/agents"),
        ("GET", f"{PROJECT}/agents?labelSelector=a%3D%00"),
        ("GET", f"{PROJECT}/agents?fieldSelector=metadata.name%3D%00"),
        ("GET", f"{PROJECT}/agentruns/%00/steps"),
    ):
        answer = await here.client.request(method, path, json={"metadata": {"name": "x"}} if method == "POST" else None)
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), path


async def test_forged_continue_tokens_are_refused(here: House) -> None:
    for value in (5, None, [], ["a"], ["\0", "\0"], ["\ud800", "a"], ["a", "b", "c"]):
        answer = await here.client.get(f"{PROJECT}/agents", params={"limit": 1, "continue": token(value)})
        assert (answer.status_code, answer.json()["reason"]) == (410, "Expired"), value


async def test_numbers_are_ascii_digits(here: House) -> None:
    for query in ("limit=%C2%B2", "limit=-1", "watch=true&resourceVersion=%C2%B2", f"limit={'9' * 19}"):
        answer = await here.client.get(f"{PROJECT}/agents?{query}")
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), query
    await here.post("agentruns", run())
    assert (await here.client.get(f"{PROJECT}/agentruns/r/steps?after=%C2%B2")).status_code == 200


async def test_a_version_that_no_object_can_have_is_a_conflict(here: House) -> None:
    for version in ("²", "abc", "9" * 5000, "0x1", "-1"):
        change = json.dumps({"metadata": {"resourceVersion": version}, "spec": {"system": "x"}})
        answer = await here.client.patch(f"{PROJECT}/agents/a", content=change, headers=MERGE_PATCH)
        assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict"), version


async def test_a_patch_may_not_leave_something_that_is_no_object(here: House) -> None:
    for path in ("", "/metadata", "/spec", "/kind"):
        for value in (None, [], 5, "x"):
            steps = json.dumps([{"op": "replace", "path": path, "value": value}])
            answer = await here.client.patch(f"{PROJECT}/agents/a", content=steps, headers=JSON_PATCH)
            assert answer.status_code in (400, 422), (path, value, answer.text)


async def test_a_deadline_beyond_time_is_invalid(here: House) -> None:
    for deadline in ("99999999999999h", "9999-12-31T23:59:59-23:59", "1e400s", "9999999d"):
        answer = await here.post("agentruns", run(deadline=deadline))
        assert (answer.status_code, answer.json()["details"]["causes"][0]["field"]) == (422, "spec.deadline"), deadline


async def test_a_nul_in_a_login_is_refused_and_in_texts_is_kept(here: House) -> None:
    for body in ({"json": {"client_id": "\0"}}, {"data": {"client_id": "\0"}}):
        answer = await here.client.post("/auth/device/code", **body)
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    answer = await here.client.post("/auth/device/token", json={"grant_type": DEVICE_GRANT, "device_code": "\0"})
    assert answer.status_code == 400
    kept = await here.post("agents", {"metadata": {"name": "n"}, "spec": {"system": "a\0b"}})
    assert (kept.status_code, kept.json()["spec"]["system"]) == (201, "a\0b")
