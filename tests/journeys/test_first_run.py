"""A run's way through the house, over HTTP: the newcomer's tour as one test, on each database."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Place
from corral.base import ids
from corral.store import blobs, executions, journal
from house import PROJECT, House, house


def database(place: Place) -> str | None:
    return None if place.dialect == "sqlite" else place.address


async def test_a_runs_way_through_the_house(place: Place, tmp_path: Path) -> None:
    async with house(tmp_path / "home", database(place)) as here:
        # 1. Bytes become an object, or a refusal with every cause.
        wrong = {"kind": "AgentRun", "metadata": {"name": "Bad Name"}, "spec": {"input": "", "keepalive": True}}
        refused = await here.post("agentruns", wrong)
        assert refused.status_code == 422
        causes = {cause["field"] for cause in refused.json()["details"]["causes"]}
        assert causes == {"metadata.name", "spec.agent", "spec.input", "spec.keepalive"}
        assert refused.json()["fix"]

        # 2. Admission: the agent must exist; its revision, model and cap are pinned.
        run = {
            "kind": "AgentRun",
            "metadata": {"name": "first"},
            "spec": {"agent": "helper", "input": "look [[fake:command=echo hello]] [[fake:answer=It says {tool}]]"},
        }
        assert (await here.post("agentruns", run)).json()["details"]["causes"][0]["field"] == "spec.agent"
        agent = {"kind": "Agent", "metadata": {"name": "helper"}, "spec": {"perRunMaxCostUSD": "0.50"}}
        assert (await here.post("agents", agent)).status_code == 201

        # 3. One transaction: the object, its place in the change log, and the execution.
        created = await here.post("agentruns", run, headers={"Idempotency-Key": "k1"})
        assert created.status_code == 201
        first = created.json()
        assert (await here.post("agentruns", run, headers={"Idempotency-Key": "k1"})).json() == first
        assert (await here.post("agentruns", run)).status_code == 200
        assert first["status"]["phase"] == "Queued"
        assert first["status"]["revision"] == 1
        assert first["status"]["cost"]["limitUSD"] == "0.50"

        # 4. to 7. A worker claims it, drives the conversation step by step, and ends it.
        events = await here.follow("first")
        final = events[-1]["object"]
        assert final["status"]["phase"] == "Succeeded"
        assert final["status"]["dispatches"] == 1
        assert final["status"]["steps"]["total"] == 4
        seen = [(e["step"]["key"], e["step"]["outcome"]) for e in events if e["type"] == "step"]
        assert [key for key, outcome in seen if outcome == "Completed"] == [
            "sandbox",
            "turn-1.model-1",
            "turn-1.tool-1.1",
            "turn-1.model-2",
        ]
        versions = [event["version"] for event in events]
        assert versions == sorted(versions)

        # 8. What everybody hears is the same change log.
        watched = await here.client.get(f"{PROJECT}/agentruns/first")
        assert watched.json() == final
        answer = await here.client.get(f"{PROJECT}/agentruns/first/answer")
        assert "hello" in answer.text
        assert ids.digest(answer.content) == final["status"]["answer"]["sha256"]
        turn = final["status"]["turns"][0]
        assert (turn["prompt"], turn["modelCalls"], turn["toolCalls"]) == ("input", 2, 1)
        assert await _released(here, final["metadata"]["uid"])
    await _recorded(place, final["metadata"]["uid"], tmp_path / "home")


async def _released(here: House, uid: str) -> bool:
    """The sandbox is gone soon after the end."""
    with anyio.fail_after(20):
        while (here.home / "sandboxes" / uid).exists():
            await anyio.sleep(0.02)
    return True


async def _recorded(place: Place, uid: str, home: Path) -> None:
    """The journal has each step once, with its result; the database is all that is needed to know it."""
    where = Place("sqlite", str(home / "corral.db")) if place.dialect == "sqlite" else place
    async with where.open() as store, store.read() as conn:
        row = await executions.get(conn, uid)
        steps = await journal.load(conn, uid)
        assert row is not None
        assert (row.state, row.epoch, row.reserved) == ("succeeded", 1, 0)
        assert [(step.state, step.attempt) for step in steps] == [("Completed", 1)] * 4
        given = (await blobs.load(conn, [row.input]))[row.input]
        assert given["model"]["id"] == "scripted/default"


@pytest.mark.parametrize("ending", ["cancel", "deadline", "delete"])
async def test_ways_to_end_a_run_early(place: Place, tmp_path: Path, ending: str) -> None:
    async with house(tmp_path / "home", database(place)) as here:
        await here.post("agents", {"kind": "Agent", "metadata": {"name": "helper"}, "spec": {}})
        spec: dict[str, Any] = {"agent": "helper", "input": "[[fake:command=sleep 60]]"}
        if ending == "deadline":
            spec["deadline"] = "1500ms"
        created = await here.post("agentruns", {"kind": "AgentRun", "metadata": {"name": "slow"}, "spec": spec})
        uid = created.json()["metadata"]["uid"]
        with anyio.fail_after(30):
            async with here.client.stream("GET", f"{PROJECT}/agentruns/slow/steps?follow=true") as stream:
                async for line in stream.aiter_lines():
                    event = json.loads(line)
                    if event["type"] == "step" and event["step"]["name"] == "tool":
                        await _end(here, ending)
                        break
        if ending == "delete":
            assert (await here.client.get(f"{PROJECT}/agentruns/slow")).status_code == 404
        else:
            final = (await here.follow("slow"))[-1]["object"]["status"]
            wanted = {"cancel": ("Cancelled", ""), "deadline": ("Failed", "DeadlineExceeded")}[ending]
            assert (final["phase"], final["reason"]) == wanted
            assert final["cost"]["heldUSD"] == "0.00"
        assert await _released(here, uid)


async def _end(here: House, ending: str) -> None:
    if ending == "cancel":
        patched = await here.patch("agentruns/slow", {"spec": {"state": "Cancelled"}})
        assert patched.json()["status"]["phase"] == "Cancelling"
    elif ending == "delete":
        assert (await here.client.delete(f"{PROJECT}/agentruns/slow")).status_code == 200


async def test_a_kept_run_answers_message_after_message(place: Place, tmp_path: Path) -> None:
    async with house(tmp_path / "home", database(place)) as here:
        await here.post("agents", {"kind": "Agent", "metadata": {"name": "helper"}, "spec": {}})
        spec = {"agent": "helper", "input": "[[fake:command=echo one > f; cat f]]", "keepAlive": True}
        await here.post("agentruns", {"kind": "AgentRun", "metadata": {"name": "chat"}, "spec": spec})
        assert "one" in (await here.client.get(f"{PROJECT}/agentruns/chat/answer")).text
        message = {"payload": "[[fake:command=echo two >> f; cat f]]", "messageKey": "m1"}
        receipts = [await here.client.post(f"{PROJECT}/agentruns/chat/messages", json=message) for _ in range(3)]
        assert [(r.status_code, r.json()) for r in receipts] == [(202, {"seq": 1, "messageKey": "m1"})] * 3
        assert "two" in (await here.client.get(f"{PROJECT}/agentruns/chat/answer")).text
        keyless = {"payload": "[[fake:tool_calls=0]]"}
        for _ in range(3):
            path, headers = f"{PROJECT}/agentruns/chat/messages", {"Idempotency-Key": "once"}
            receipt = (await here.client.post(path, json=keyless, headers=headers)).json()
            assert receipt["seq"] == 2
        await here.client.get(f"{PROJECT}/agentruns/chat/answer")
        status = (await here.client.get(f"{PROJECT}/agentruns/chat")).json()["status"]
        assert [turn["prompt"] for turn in status["turns"]] == ["input", "m1", receipt["messageKey"]]
        assert (status["phase"], status["reason"]) == ("Waiting", "WaitingForMessage")
        await here.patch("agentruns/chat", {"spec": {"state": "Cancelled"}})
        await here.follow("chat")
        late = await here.client.post(f"{PROJECT}/agentruns/chat/messages", json={"payload": "hello?"})
        assert (late.status_code, late.json()["reason"]) == (409, "AgentRunFinished")
