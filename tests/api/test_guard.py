"""What every request passes: the key, the Host and Origin rules, the size of a body, the form of a refusal."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.kinds import Reason
from house import PROJECT, House, house

ERRORS = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        yield running


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer wrong", "Basic wrong", "Bearer é"])
async def test_a_wrong_key_is_refused(here: House, value: str) -> None:
    answer = await here.client.get(f"{PROJECT}/agents", headers={"Authorization": value.encode("latin-1")})
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
    assert "corral env" in answer.json()["fix"]
    assert answer.json()["requestId"] == answer.headers["x-request-id"]


async def test_health_needs_no_key(here: House) -> None:
    for path in ("/healthz", "/readyz"):
        assert (await here.client.get(path, headers={"Authorization": ""})).status_code == 200


@pytest.mark.parametrize("headers", [{"Host": "evil.test"}, {"Host": "evil.test:80"}, {"Origin": "http://evil.test"}])
async def test_other_names_and_other_pages_are_refused(here: House, headers: dict[str, str]) -> None:
    answer = await here.client.get(f"{PROJECT}/agents", headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")


async def test_a_body_over_1_mib_is_refused_with_and_without_its_length(here: House) -> None:
    big = b" " * (1024 * 1024 + 1)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(big), 65536):
            yield big[start : start + 65536]

    for content in (big, pieces()):
        answer = await here.client.post(f"{PROJECT}/agents", content=content)
        assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"{", 400, "not JSON"),
        (b'{"kind": "Agent", "kind": "Agent"}', 400, "'kind' appears twice"),
        (b"[]", 400, "not a JSON object"),
        (b'{"spec": NaN}', 400, "NaN"),
        (b"[" * 100_000, 400, "nested too deeply"),
        (b'{"kind": "AgentRun", "metadata": {"name": "x"}}', 422, "must be 'Agent'"),
        (b'{"metadata": {"name": "x"}, "spec": {"maxTokens": true}}', 422, "valid integer"),
        (b'{"metadata": {"name": "x"}, "spec": {"system": "\\ud800"}}', 400, "surrogate"),
        (b"\xff\xfe", 400, "not"),
    ],
)
async def test_bad_bodies_are_told_apart(here: House, body: bytes, status: int, told: str) -> None:
    answer = await here.client.post(f"{PROJECT}/agents", content=body)
    assert answer.status_code == status, answer.text
    assert told in answer.text


async def test_unknown_places_and_methods(here: House) -> None:
    for path in ("/", f"{PROJECT}/gadgets", f"{PROJECT}/events", "/apis/nodus.dev/v1/agents/x/y/z"):
        answer = await here.client.get(path)
        assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound"), path
    answer = await here.client.post(f"{PROJECT}/agents/x", json={})
    assert (answer.status_code, answer.json()["reason"]) == (405, "MethodNotAllowed")
    answer = await here.client.post("/apis/nodus.dev/v1/events", json={"kind": "Event"})
    assert answer.status_code in (405, 422)


async def test_every_reason_is_explained_where_its_status_points(here: House) -> None:
    refused = await here.client.get(f"{PROJECT}/agents/none")
    docs = refused.json()["docs"]
    assert docs == f"{str(here.client.base_url).rstrip(chr(47))}/docs/errors/NotFound"
    page = await here.client.get(docs, headers={"Authorization": ""})
    assert page.text.startswith("NotFound (HTTP 404)")
    for reason in Reason:
        assert f"| `{reason.name}` | {reason.code} | {reason.meaning} |" in ERRORS
        assert (await here.client.get(f"/docs/errors/{reason.name}")).status_code == 200
    assert (await here.client.get("/docs/errors/None")).status_code == 404
