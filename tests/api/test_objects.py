"""Objects over HTTP: create, repeat, list, select, patch, delete, watch, tables."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa

from corral.store import schema
from corral.store.sqlite import open_sqlite
from house import PROJECT, House, house


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        yield running


def agent(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"kind": "Agent", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


async def test_creating_again_gives_the_same_and_another_spec_conflicts(here: House) -> None:
    first = await here.post("agents", agent("a", system="x"))
    again = await here.post("agents", agent("a", system="x", maxTokens=8192))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    other = await here.post("agents", agent("a", system="y"))
    assert (other.status_code, other.json()["reason"]) == (409, "AlreadyExists")
    assert other.json()["details"]["diff"] == {"spec.system": {"have": "x", "want": "y"}}


async def test_fifty_parallel_creates_with_one_key_make_one_object(here: House) -> None:
    await here.agent()
    run = {"kind": "AgentRun", "metadata": {"generateName": "r-"}, "spec": {"agent": "helper", "input": "hi"}}
    answers: list[Any] = []

    async def create() -> None:
        answers.append(await here.post("agentruns", run, headers={"Idempotency-Key": "same"}))

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(create)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert len((await here.client.get(f"{PROJECT}/agentruns")).json()["items"]) == 1
    reused = await here.post(
        "agentruns", {**run, "spec": {"agent": "helper", "input": "bye"}}, headers={"Idempotency-Key": "same"}
    )
    assert (reused.status_code, reused.json()["reason"]) == (409, "IdempotencyKeyReused")


async def test_a_patch_is_checked_like_a_new_object(here: House) -> None:
    await here.post("agents", agent("a"))
    changed = await here.patch("agents/a", {"spec": {"system": "new", "maxTokens": None}})
    assert changed.json()["metadata"]["generation"] == 2
    assert changed.json()["status"]["revision"] == 2
    labelled = await here.patch("agents/a", {"metadata": {"labels": {"team": "x"}}})
    assert labelled.json()["metadata"]["generation"] == 2
    assert labelled.json()["metadata"]["labels"]["nodus.dev/created-by"] == "operator"
    bad = await here.patch("agents/a", {"spec": {"maxToken": 1}})
    assert (bad.status_code, bad.json()["details"]["causes"][0]["field"]) == (422, "spec.maxToken")
    stale = await here.patch("agents/a", {"metadata": {"resourceVersion": "1"}, "spec": {"system": "z"}})
    assert (stale.status_code, stale.json()["reason"]) == (409, "Conflict")
    untyped = await here.client.patch(f"{PROJECT}/agents/a", json={})
    assert (untyped.status_code, untyped.json()["reason"]) == (415, "UnsupportedMediaType")


async def test_what_is_fixed_cannot_change(here: House) -> None:
    await here.agent()
    await here.run("hi [[fake:tool_calls=0]]", "one")
    refused = await here.patch("agentruns/one", {"spec": {"input": "other"}})
    assert (refused.status_code, refused.json()["reason"]) == (409, "FieldImmutable")
    assert refused.json()["details"]["causes"][0]["field"] == "spec.input"


async def test_lists_are_selected_and_paged(here: House) -> None:
    for index in range(7):
        await here.post(
            "agents", agent(f"a{index}", {"odd": str(index % 2)}, state="Stopped" if index > 4 else "Running")
        )
    names: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = (await here.client.get(f"{PROJECT}/agents", params=query)).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        if not page["metadata"].get("continue"):
            break
        query["continue"] = page["metadata"]["continue"]
    assert names == [f"a{index}" for index in range(7)]
    chosen = await here.client.get(
        f"{PROJECT}/agents", params={"labelSelector": "odd=1,!absent", "fieldSelector": "spec.state!=Stopped"}
    )
    assert [item["metadata"]["name"] for item in chosen.json()["items"]] == ["a1", "a3"]
    for selector in ("odd in", "=x", "a,,b"):
        bad = await here.client.get(f"{PROJECT}/agents", params={"labelSelector": selector})
        assert (bad.status_code, bad.json()["reason"]) == (400, "BadRequest")
    lost = await here.client.get(f"{PROJECT}/agents", params={"limit": 1, "continue": "rubbish"})
    assert lost.status_code == 410


async def test_tables_are_drawn_by_the_server(here: House) -> None:
    await here.agent(perRunMaxCostUSD="0.25")
    table = (
        await here.client.get(f"{PROJECT}/agents", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    ).json()
    assert [column["name"] for column in table["columnDefinitions"]][:4] == ["Name", "Model", "Access", "Cap"]
    assert table["rows"][0]["cells"][:4] == ["helper", "", "Nodus", "0.25"]
    assert table["rows"][0]["object"]["metadata"]["name"] == "helper"


async def test_a_watch_tells_every_change_once(here: House) -> None:
    await here.post("agents", agent("a"))
    listed = (await here.client.get(f"{PROJECT}/agents")).json()["metadata"]["resourceVersion"]
    seen: list[tuple[str, str]] = []

    async def change() -> None:
        await here.patch("agents/a", {"spec": {"system": "1"}})
        await here.post("agents", agent("b"))
        await here.client.delete(f"{PROJECT}/agents/a")
        assert (await here.client.get(f"{PROJECT}/agents/a")).status_code == 404
        assert (await here.post("agents", agent("a"))).status_code == 201

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            watch = f"{PROJECT}/agents?watch=true&resourceVersion={listed}"
            async with here.client.stream("GET", watch) as stream:
                tasks.start_soon(change)
                async for line in stream.aiter_lines():
                    event = json.loads(line)
                    seen.append((event["type"], event["object"]["metadata"]["name"]))
                    if len(seen) == 4:
                        break
    assert seen == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("ADDED", "a")]


async def test_a_watch_without_a_version_begins_with_what_exists(here: House) -> None:
    await here.post("agents", agent("a", {"pick": "yes"}))
    await here.post("agents", agent("b"))
    with anyio.fail_after(30):
        async with here.client.stream("GET", f"{PROJECT}/agents?watch=true&labelSelector=pick=yes") as stream:
            lines = stream.aiter_lines()
            first = json.loads(await anext(lines))
            await here.patch("agents/a", {"metadata": {"labels": {"pick": "no"}}})
            second = json.loads(await anext(lines))
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert (second["type"], second["object"]["metadata"]["name"]) == ("DELETED", "a")


async def test_secrets_get_versions_and_give_nothing_back(here: House) -> None:
    def secret(**spec: Any) -> dict[str, Any]:
        applied = json.dumps({"spec": {"stringData": {"K": "plain-value"}}})
        return {
            "kind": "Secret",
            "metadata": {"name": "s", "annotations": {"nodus.dev/last-applied": applied}},
            "spec": spec,
        }

    created = await here.post("secrets", secret(stringData={"K": "plain-value"}, data={"B": "YmluYXJ5"}))
    assert created.json()["status"]["keys"] == ["B", "K"]
    assert created.json()["spec"] == {"type": "Opaque"}
    assert "plain-value" not in created.text
    again = await here.post("secrets", secret(stringData={"K": "plain-value"}))
    assert again.status_code == 409
    second = await here.patch("secrets/s", {"spec": {"stringData": {"K": "other-value"}}})
    assert (second.json()["status"]["version"], second.json()["status"]["keys"]) == (2, ["K"])
    labelled = await here.patch("secrets/s", {"metadata": {"labels": {"x": "y"}}})
    assert labelled.json()["status"]["version"] == 2
    bad = await here.post(
        "secrets", {"kind": "Secret", "metadata": {"name": "t"}, "spec": {"data": {"K": "hush-value!"}}}
    )
    assert bad.status_code == 422
    assert "hush-value" not in bad.text


async def test_admission_refuses_with_the_field_and_the_fix(here: House) -> None:
    await here.agent()
    await here.agent("stopped", state="Stopped")
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"agent": "absent"}, "Invalid", "spec.agent"),
        ({"agent": "stopped"}, "AgentStopped", ""),
        ({"deadline": "2020-01-01T00:00:00Z"}, "Invalid", "spec.deadline"),
        ({"deadline": "2099-01-01T00:00:00"}, "Invalid", "spec.deadline"),
        ({"model": {"access": "OnDemand"}}, "Invalid", "spec.model"),
        ({"model": {"access": "OnDemand", "name": "nobody/none"}}, "Invalid", "spec.model.name"),
        ({"model": {"access": "OnDemand", "name": "anthropic/claude-sonnet-5-5"}}, "Invalid", "spec.model.name"),
    ]
    for spec, reason, field in cases:
        refused = await here.run("hi", **spec)
        assert refused.json()["reason"] == reason, refused.text
        assert refused.json().get("fix")
        if field:
            assert refused.json()["details"]["causes"][0]["field"] == field
    assert (await here.client.get(f"{PROJECT}/agentruns")).json()["items"] == []


async def test_a_json_patch_is_applied_and_checked(here: House) -> None:
    await here.post("agents", agent("a"))

    async def patch(*operations: Any) -> Any:
        return await here.client.patch(
            f"{PROJECT}/agents/a",
            content=json.dumps(operations),
            headers={"Content-Type": "application/json-patch+json"},
        )

    changed = await patch(
        {"op": "test", "path": "/spec/maxTokens", "value": 8192},
        {"op": "replace", "path": "/spec/maxTokens", "value": 2048},
    )
    assert changed.json()["spec"]["maxTokens"] == 2048
    unfit = await patch({"op": "test", "path": "/spec/maxTokens", "value": 1})
    assert (unfit.status_code, unfit.json()["reason"]) == (422, "Invalid")
    for bad in ({"op": "fly"}, {"op": "add", "path": "no-slash", "value": 1}, 3):
        refused = await patch(bad)
        assert (refused.status_code, refused.json()["reason"]) == (400, "BadRequest"), refused.text
    unknown = await patch({"op": "add", "path": "/spec/none", "value": 1})
    assert unknown.json()["details"]["causes"][0]["field"] == "spec.none"


async def test_put_replaces_the_whole_spec(here: House) -> None:
    await here.post("agents", agent("a", {"x": "y"}, system="old", maxTokens=1))
    put = await here.client.put(f"{PROJECT}/agents/a", json=agent("a", system="new"))
    assert (put.status_code, put.json()["spec"]["system"], put.json()["spec"]["maxTokens"]) == (200, "new", 8192)
    assert put.json()["metadata"]["labels"] == {"nodus.dev/created-by": "operator"}
    other = await here.client.put(f"{PROJECT}/agents/a", json=agent("b"))
    assert other.json()["reason"] == "FieldImmutable"
    absent = await here.client.put(f"{PROJECT}/agents/none", json=agent("none"))
    assert absent.status_code == 404


async def test_a_dry_run_keeps_nothing_and_its_tag_guards_the_create(here: House) -> None:
    await here.agent()
    run = {"kind": "AgentRun", "metadata": {"name": "r"}, "spec": {"agent": "helper", "input": "hi"}}
    path = f"{PROJECT}/agentruns"
    dry = await here.client.post(path, json=run, params={"dryRun": "All"})
    assert (dry.status_code, dry.json()["status"]["model"]) == (201, "scripted/default")
    assert (await here.client.get(f"{path}/r")).status_code == 404
    tag = {"If-Match": dry.headers["etag"]}
    await here.patch("agents/helper", {"spec": {"system": "changed"}})
    stale = await here.client.post(path, json=run, headers=tag)
    assert (stale.status_code, stale.json()["reason"]) == (412, "PreconditionFailed")
    again = await here.client.post(path, json=run, params={"dryRun": "All"})
    created = await here.client.post(path, json=run, headers={"If-Match": again.headers["etag"]})
    assert created.status_code == 201
    before = (await here.client.get(f"{PROJECT}/agents/helper")).json()
    tried = await here.client.patch(
        f"{PROJECT}/agents/helper",
        content='{"spec": {"system": "tried"}}',
        params={"dryRun": "All"},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert tried.json()["spec"]["system"] == "tried"
    assert (await here.client.get(f"{PROJECT}/agents/helper")).json() == before
    refused = await here.client.post(path, json=run, params={"dryRun": "Some"})
    assert refused.status_code == 400


async def test_if_match_guards_changes(here: House) -> None:
    await here.post("agents", agent("a"))
    tag = (await here.client.get(f"{PROJECT}/agents/a")).headers["etag"]
    await here.patch("agents/a", {"spec": {"system": "x"}})
    deleted = await here.client.delete(f"{PROJECT}/agents/a", headers={"If-Match": tag})
    assert (deleted.status_code, deleted.json()["reason"]) == (412, "PreconditionFailed")
    tag = (await here.client.get(f"{PROJECT}/agents/a")).headers["etag"]
    assert (await here.client.delete(f"{PROJECT}/agents/a", headers={"If-Match": tag})).status_code == 200


async def test_a_long_list_is_the_same_in_pieces(here: House) -> None:
    for index in range(450):
        await here.post("agents", agent(f"a{index:03}"))
    whole = (await here.client.get(f"{PROJECT}/agents")).json()
    assert [item["metadata"]["name"] for item in whole["items"]] == [f"a{index:03}" for index in range(450)]
    table = await here.client.get(f"{PROJECT}/agents", headers={"Accept": "application/json;as=Table"})
    assert [row["cells"][0] for row in table.json()["rows"]] == [f"a{index:03}" for index in range(450)]
    assert table.json()["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]


async def test_an_idempotency_key_is_free_again_after_its_day(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with house(home) as here:
        first = await here.post("agents", agent("a"), headers={"Idempotency-Key": "day"})
        assert first.status_code == 201
        reused = await here.post("agents", agent("b"), headers={"Idempotency-Key": "day"})
        assert reused.json()["reason"] == "IdempotencyKeyReused"
    async with open_sqlite(home / "corral.db") as store:
        await store.write(lambda tx: tx.execute(sa.update(schema.requests).values(expires=tx.now - 1)))
    async with house(home) as here:
        later = await here.post("agents", agent("b"), headers={"Idempotency-Key": "day"})
        assert later.status_code == 201
        again = await here.post("agents", agent("b"), headers={"Idempotency-Key": "day"})
        assert again.json() == later.json()
