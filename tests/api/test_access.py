"""What keys allow over HTTP: scopes, projects, other people's things, and the end of a key."""

import base64
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from corral.api.app import create_app
from corral.base import clock, ids
from corral.kinds import scheme
from corral.verbs.services import Services
from house import PROJECT, House, house

ROOT = "/apis/nodus.dev/v1"
SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@home"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        yield running


@pytest.fixture
async def laboratory(here: House) -> House:
    await project(here, "lab")
    return here


async def make_key(here: House, name: str = "k", by: httpx2.AsyncClient | None = None, **spec: Any) -> str:
    document = {"metadata": {"name": name}, "spec": {"scopes": ["*"], **spec}}
    answer = await (by or here.client).post(f"{ROOT}/apikeys", json=document)
    assert answer.status_code == 201, answer.text
    value = answer.json()["status"]["key"]
    assert isinstance(value, str)
    return value


@asynccontextmanager
async def client(here: House, key: str) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(
        base_url=here.client.base_url, headers=headers, trust_env=False, timeout=60
    ) as opened:
        yield opened


async def project(here: House, name: str) -> None:
    made = await here.client.post(f"{ROOT}/projects", json={"metadata": {"name": name}})
    assert made.status_code == 201, made.text


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json().get("reason"))


async def test_the_operator_may_do_everything(here: House) -> None:
    told = (await here.client.get("/auth/whoami")).json()
    assert (told["user"], told["role"], told["scopes"]) == ("operator", "Owner", ["*"])
    assert told["projects"] == ["default", "nodus"]
    assert (told["kind"], told["org"], told["orgName"]) == ("User", "local", "local")
    organizations = (await here.client.get(f"{ROOT}/organizations")).json()["items"]
    assert [item["metadata"]["name"] for item in organizations] == ["local"]
    assert refusal(await here.client.post(f"{ROOT}/organizations", json={})) == (405, "MethodNotAllowed")


async def test_a_key_speaks_for_its_user_within_its_limits(here: House) -> None:
    await project(here, "lab")
    key = await make_key(here, user="alice", scopes=["agents:write", "agents:read"], projects=["lab"])
    async with client(here, key) as alice:
        told = (await alice.get("/auth/whoami")).json()
        assert (told["user"], told["role"]) == ("alice", "Member")
        assert (told["projects"], told["scopes"]) == (["lab", "nodus"], ["agents:write", "agents:read"])
        made = await alice.post(f"{ROOT}/namespaces/lab/agents", json={"metadata": {"name": "a"}})
        assert made.json()["metadata"]["labels"]["nodus.dev/created-by"] == "alice"
        refused = await alice.get(f"{ROOT}/namespaces/lab/secrets")
        assert refusal(refused) == (403, "Forbidden")
        assert refused.json()["details"]["missingScope"] == "secrets:read"
        assert "secrets:read" in refused.json()["fix"]
        for answer in (await alice.get(f"{PROJECT}/agents"), await alice.post(f"{PROJECT}/agents", json={})):
            assert refusal(answer) == (404, "NotFound")
    await here.agent("hidden")
    async with client(here, key) as alice:
        everywhere = (await alice.get(f"{ROOT}/agents")).json()["items"]
    assert [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in everywhere] == [
        ("lab", "a"),
        ("nodus", "claude-assistant"),
    ]


async def test_pages_of_a_list_skip_what_is_hidden_and_miss_nothing(here: House) -> None:
    await project(here, "lab")
    key = await make_key(here, projects=["lab"])
    for index in range(5):
        await here.agent(f"hidden-{index}")
        document = {"metadata": {"name": f"seen-{index}"}}
        await here.client.post(f"{ROOT}/namespaces/lab/agents", json=document)
    found: list[str] = []
    async with client(here, key) as limited:
        query = {"limit": "2"}
        while True:
            page = (await limited.get(f"{ROOT}/agents", params=query)).json()
            found += [item["metadata"]["name"] for item in page["items"]]
            if "continue" not in page["metadata"]:
                break
            query["continue"] = page["metadata"]["continue"]
    assert found == [f"seen-{index}" for index in range(5)] + ["claude-assistant"]


PLURALS = sorted(cls.plural for cls in scheme)
SCOPES = st.lists(
    st.sampled_from(["*", "*:read", *(f"{p}:{act}" for p in PLURALS for act in ("read", "write"))]),
    min_size=1,
    max_size=6,
    unique=True,
)


def can_i(told: dict[str, Any], plural: str, write: bool, place: str) -> bool:
    """As the public client works it out from `whoami`."""
    if place not in told["projects"]:
        return False
    wanted = {"*", f"{plural}:write"} if write else {"*", f"{plural}:read", "*:read"}
    return bool(wanted & set(told["scopes"]))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scopes=SCOPES, projects=st.lists(st.sampled_from(["default", "lab"]), unique=True, max_size=2))
async def test_what_a_client_works_out_is_what_the_server_allows(
    laboratory: House, scopes: list[str], projects: list[str]
) -> None:
    key = await make_key(laboratory, f"k-{ids.new_suffix(12)}", user="alice", scopes=scopes, projects=projects)
    async with client(laboratory, key) as alice:
        told = (await alice.get("/auth/whoami")).json()
        for cls, place in itertools.product(scheme, ("default", "lab")):
            if cls.scope == "Org" and place not in told["projects"]:
                continue  # the client's project says nothing about what is in no project
            path = f"{ROOT}/namespaces/{place}/{cls.plural}" if cls.scope == "Project" else f"{ROOT}/{cls.plural}"
            read = await alice.get(path)
            assert (read.status_code == 200) == can_i(told, cls.plural, False, place), (path, told)
            assert read.status_code in (200, 403, 404)
            if cls.writable:
                # The body is no JSON: whoever may write is told so, everybody else is stopped before it is read.
                written = await alice.post(path, content=b"{")
                assert (written.status_code == 400) == can_i(told, cls.plural, True, place), (path, told)
                assert written.status_code in (400, 403, 404)


async def test_no_door_is_open_to_a_key_without_its_scope(here: House) -> None:
    """Every route below the projects, so that a new one cannot forget to ask."""
    await here.agent()
    await here.run("hello", "r")
    key = await make_key(here, user="alice", scopes=["sshkeys:read"])
    nothing: Any = None
    routes = create_app(Services(nothing, nothing, nothing), key_digest="", loopback=True).routes
    tried = 0
    async with client(here, key) as alice:
        for route in routes:
            if not isinstance(route, Route) or not route.path.startswith(f"{ROOT}/namespaces/"):
                continue
            path = route.path.format(namespace="default", plural="agentruns", name="r")
            for method in sorted(route.methods or ()):
                answer = await alice.request(method, path, json={})
                assert answer.status_code in (403, 415, 422), (method, path, answer.text)
                if method in ("GET", "DELETE"):
                    assert answer.json()["details"]["missingScope"].startswith("agentruns:"), path
                tried += 1
    assert tried > 10


async def test_a_project_has_to_exist(here: House) -> None:
    answer = await here.client.post(f"{ROOT}/namespaces/lab/agents", json={"metadata": {"name": "a"}})
    assert refusal(answer) == (404, "NotFound")
    assert "corral create project lab" in answer.json()["fix"]
    await project(here, "lab")
    again = await here.client.post(f"{ROOT}/namespaces/lab/agents", json={"metadata": {"name": "a"}})
    assert again.status_code == 201
    assert refusal(await here.client.delete(f"{ROOT}/projects/lab")) == (409, "Conflict")
    await here.client.delete(f"{ROOT}/namespaces/lab/agents/a")
    assert (await here.client.delete(f"{ROOT}/projects/lab")).status_code == 200
    for built_in in ("default", "nodus"):
        assert refusal(await here.client.delete(f"{ROOT}/projects/{built_in}")) == (409, "Conflict")
    dotted = await here.client.post(f"{ROOT}/projects", json={"metadata": {"name": "a.b"}})
    assert dotted.json()["details"]["causes"][0]["field"] == "metadata.name"


async def test_a_project_that_is_limited_to_is_all_a_key_makes(here: House) -> None:
    key = await make_key(here, projects=["lab"])
    async with client(here, key) as limited:
        assert refusal(await limited.post(f"{ROOT}/projects", json={"metadata": {"name": "other"}})) == (
            403,
            "Forbidden",
        )
        assert (await limited.post(f"{ROOT}/projects", json={"metadata": {"name": "lab"}})).status_code == 201
        seen = (await limited.get(f"{ROOT}/projects")).json()["items"]
        assert [item["metadata"]["name"] for item in seen] == ["lab", "nodus"]
        assert refusal(await limited.get(f"{ROOT}/projects/default")) == (404, "NotFound")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "spec.scopes"),
        ({"scopes": []}, "spec.scopes"),
        ({"scopes": ["*:write"]}, "name the kinds"),
        ({"scopes": ["agents"]}, "is no scope"),
        ({"scopes": ["*"], "user": "no spaces"}, "spec.user"),
        ({"scopes": ["*"], "expirationTime": "2030-01-01T00:00:00"}, "spec.expirationTime"),
    ],
)
async def test_malformed_keys_are_refused(here: House, spec: dict[str, Any], told: str) -> None:
    answer = await here.client.post(f"{ROOT}/apikeys", json={"metadata": {"name": "k"}, "spec": spec})
    assert refusal(answer) == (422, "Invalid")
    assert told in answer.text


def blob(*fields: bytes) -> str:
    return base64.b64encode(b"".join(len(field).to_bytes(4) + field for field in fields)).decode()


SMALL_RSA = blob(b"ssh-rsa", b"\1\0\1", b"\0" + b"\xff" * 128)
LARGE_RSA = blob(b"ssh-rsa", b"\1\0\1", b"\0" + b"\xff" * 256)


@pytest.mark.parametrize(
    ("public_key", "told"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "is a private key"),
        ("ssh-dss AAAA", "is not one line"),
        ("ssh-ed25519", "is not one line"),
        (f"{SSH}\n{SSH}", "is not one line"),
        ("ssh-ed25519 !!!!", "is not base64"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "is cut off"),
        (f"ssh-ed25519 {SSH.split()[1][:-4]}", "is cut off"),
        (SSH.replace("ssh-ed25519", "ssh-rsa"), "says one type and holds another"),
        (f"ssh-rsa {SMALL_RSA}", "below 2048 bits"),
        (f"ssh-rsa {LARGE_RSA} me@work", ""),
    ],
)
async def test_ssh_keys_are_checked(here: House, public_key: str, told: str) -> None:
    document = {"metadata": {"name": "k"}, "spec": {"publicKey": public_key}}
    answer = await here.client.post(f"{ROOT}/sshkeys", json=document)
    assert answer.status_code == (422 if told else 201), answer.text
    if told:
        assert answer.json()["details"]["causes"][0]["field"] == "spec.publicKey"
        assert told in answer.text


async def test_no_key_makes_one_that_allows_more(here: House) -> None:
    soon = clock.rfc3339(clock.now() + timedelta(hours=1))
    limits: dict[str, Any] = {"projects": ["default"], "expirationTime": soon}
    scopes = ["apikeys:write", "*:read", "agents:write"]
    key = await make_key(here, user="alice", scopes=scopes, **limits)
    asked: list[tuple[dict[str, Any], int]] = [
        ({"scopes": ["*"], **limits}, 403),
        ({"scopes": ["secrets:write"], **limits}, 403),
        ({"scopes": ["agents:write"], "expirationTime": soon}, 403),
        ({"scopes": ["agents:write"], **limits, "projects": ["default", "lab"]}, 403),
        ({"scopes": ["agents:write"], "projects": ["default"]}, 403),
        ({"scopes": ["agents:write"], **limits, "expirationTime": "2999-01-01T00:00:00Z"}, 403),
        ({"scopes": ["agents:write"], **limits, "user": "bob"}, 403),
        ({"scopes": ["agents:write", "secrets:read", "*:read"], **limits}, 201),
    ]
    async with client(here, key) as alice:
        for index, (spec, status) in enumerate(asked):
            made = await alice.post(f"{ROOT}/apikeys", json={"metadata": {"name": f"n{index}"}, "spec": spec})
            assert made.status_code == status, (spec, made.text)
        merge = {"Content-Type": "application/merge-patch+json"}
        own = f"{ROOT}/apikeys/k"
        raised = await alice.patch(own, content=json.dumps({"spec": {"scopes": ["*"]}}), headers=merge)
        assert refusal(raised) == (403, "Forbidden")
        longer = await alice.patch(own, content=json.dumps({"spec": {"expirationTime": None}}), headers=merge)
        assert refusal(longer) == (403, "Forbidden")


async def test_people_see_and_change_only_their_own_keys(here: House) -> None:
    alices = await make_key(here, "of-alice", user="alice")
    bobs = await make_key(here, "of-bob", user="bob", scopes=["*:read", "apikeys:write", "sshkeys:write"])
    document = {"metadata": {"name": "home"}, "spec": {"displayName": "Home", "publicKey": SSH}}
    async with client(here, alices) as alice, client(here, bobs) as bob:
        added = await alice.post(f"{ROOT}/sshkeys", json=document)
        assert added.json()["status"] == {
            "fingerprint": "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA",
            "user": {"id": "alice", "email": ""},
        }
        for kind, name in (("apikeys", "of-alice"), ("sshkeys", "home")):
            mine = [item["metadata"]["name"] for item in (await bob.get(f"{ROOT}/{kind}")).json()["items"]]
            assert mine == (["of-bob"] if kind == "apikeys" else [])
            assert refusal(await bob.get(f"{ROOT}/{kind}/{name}")) == (404, "NotFound")
            assert refusal(await bob.delete(f"{ROOT}/{kind}/{name}")) == (404, "NotFound")
        taken = await bob.post(f"{ROOT}/sshkeys", json=document)
        assert refusal(taken) == (409, "AlreadyExists")
        assert "diff" not in taken.json()["details"]
        # An unlimited key with every scope is an operator's, whoever it speaks for.
        everybody = (await alice.get(f"{ROOT}/apikeys")).json()["items"]
    assert [item["metadata"]["name"] for item in everybody] == ["of-alice", "of-bob"]
    assert not any("key" in item["status"] for item in everybody)


async def test_the_templates_are_for_everybody_and_runs_there_are_private(here: House) -> None:
    ready = f"{ROOT}/namespaces/nodus"
    run = {"metadata": {"generateName": "r-"}, "spec": {"agent": "claude-assistant", "input": "hello"}}
    scopes = ["*:read", "agents:write", "agentruns:write", "secrets:write"]
    keys = [await make_key(here, name, user=name, scopes=scopes, projects=["default"]) for name in ("alice", "bob")]
    async with client(here, keys[0]) as alice, client(here, keys[1]) as bob:
        assert (await alice.get(f"{ready}/agents/claude-assistant")).json()["spec"]["model"]["access"] == "Nodus"
        for plural, name in (("agents", "claude-assistant"), ("agents", "mine"), ("secrets", "mine")):
            assert refusal(await alice.post(f"{ready}/{plural}", json={"metadata": {"name": name}})) == (
                403,
                "Forbidden",
            )
        assert refusal(await alice.delete(f"{ready}/agents/claude-assistant")) == (403, "Forbidden")
        made = await alice.post(f"{ready}/agentruns", json=run)
        assert made.status_code == 201, made.text
        path = f"{ready}/agentruns/{made.json()['metadata']['name']}"
        assert (await alice.get(f"{path}/answer")).status_code == 200
        assert (await alice.get(f"{path}/steps")).json()["items"]
        assert len((await alice.get(f"{ready}/agentruns")).json()["items"]) == 1
        assert (await bob.get(f"{ready}/agentruns")).json()["items"] == []
        for answer in (
            await bob.get(path),
            await bob.get(f"{path}/answer"),
            await bob.get(f"{path}/steps"),
            await bob.get(f"{path}/steps?follow=true"),
            await bob.post(f"{path}/messages", json={"payload": "hi"}),
            await bob.delete(path),
        ):
            assert refusal(answer) == (404, "NotFound")
        fitting = {**run, "metadata": {"name": made.json()["metadata"]["name"]}}
        assert refusal(await bob.post(f"{ready}/agentruns", json=fitting)) == (409, "AlreadyExists")
        elsewhere = await bob.post(f"{PROJECT}/agentruns", json=run)
        assert (elsewhere.status_code, elsewhere.json()["metadata"]["namespace"]) == (201, "default")
    assert (await here.client.get(path)).status_code == 200


async def test_events_are_seen_by_those_who_see_what_they_tell_of(here: House) -> None:
    run = {"metadata": {"name": "r"}, "spec": {"agent": "claude-assistant", "input": "hello"}}
    await project(here, "lab")
    await here.client.post(f"{ROOT}/namespaces/lab/agents", json={"metadata": {"name": "hidden"}})
    await here.agent("seen")
    keys = [
        await make_key(here, name, user=name, scopes=["*:read", "agentruns:write"], projects=["default"])
        for name in ("alice", "bob")
    ]
    async with client(here, keys[0]) as alice, client(here, keys[1]) as bob:
        assert (await alice.post(f"{ROOT}/namespaces/nodus/agentruns", json=run)).status_code == 201

        async def told_of(who: httpx2.AsyncClient) -> set[str]:
            items = (await who.get(f"{ROOT}/events")).json()["items"]
            return {item["involvedObject"]["name"] for item in items}

        assert await told_of(alice) == {"r", "seen"}
        assert await told_of(bob) == {"seen"}
        assert {"r", "seen", "hidden", "alice", "bob"} <= await told_of(here.client)


async def test_a_key_that_is_revoked_is_refused_at_once_and_its_watches_end(here: House) -> None:
    key = await make_key(here, user="alice", scopes=["agents:read"])
    async with client(here, key) as alice:
        with anyio.fail_after(20):
            async with alice.stream("GET", f"{PROJECT}/agents?watch=true") as stream:
                await here.agent("first")
                lines = stream.aiter_lines()
                assert json.loads(await anext(lines))["object"]["metadata"]["name"] == "first"
                # It has no scope for keys, but may always give itself up.
                assert (await alice.delete(f"{ROOT}/apikeys/k")).status_code == 200
                assert refusal(await alice.get(f"{PROJECT}/agents")) == (401, "Unauthorized")
                await here.agent("second")
                assert [line async for line in lines] == []
        assert refusal(await alice.get(f"{PROJECT}/agents?watch=true")) == (401, "Unauthorized")


async def test_narrowed_limits_hold_from_the_next_request_on(here: House) -> None:
    key = await make_key(here, user="alice")
    async with client(here, key) as alice:
        assert (await alice.get(f"{PROJECT}/secrets")).status_code == 200
        narrowed = await here.client.patch(
            f"{ROOT}/apikeys/k",
            content=json.dumps({"spec": {"scopes": ["agents:read"]}}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert narrowed.status_code == 200
        assert refusal(await alice.get(f"{PROJECT}/secrets")) == (403, "Forbidden")


async def test_a_key_ends_when_it_expires(here: House) -> None:
    gone = clock.rfc3339(clock.now() - timedelta(seconds=1))
    key = await make_key(here, expirationTime=gone)
    async with client(here, key) as late:
        assert refusal(await late.get(f"{PROJECT}/agents")) == (401, "Unauthorized")


async def test_a_key_is_shown_once_and_kept_nowhere(here: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    document = {"metadata": {"name": "k"}, "spec": {"scopes": ["*"]}}
    once = {"Idempotency-Key": "one"}
    made = await here.client.post(f"{ROOT}/apikeys", json=document, headers=once)
    key = made.json()["status"]["key"]
    repeated = await here.client.post(f"{ROOT}/apikeys", json=document, headers=once)
    assert repeated.json()["metadata"]["uid"] == made.json()["metadata"]["uid"]
    assert "key" not in repeated.json()["status"]
    async with client(here, key) as user:
        assert (await user.get("/auth/whoami")).status_code == 200
    assert "key" not in (await here.client.get(f"{ROOT}/apikeys/k")).json()["status"]
    assert (await here.client.get(f"{ROOT}/apikeys/k")).json()["status"]["lastUsedTime"]
    assert refusal(await here.client.post(f"{ROOT}/apikeys", json=document)) == (409, "AlreadyExists")
    operators = (here.home / "key").read_text().strip()
    files = [file for file in here.home.glob("corral.db*") if file.is_file()]
    assert any(b"apikeys" in file.read_bytes() or b"APIKey" in file.read_bytes() for file in files)
    for secret in (key, operators):
        assert secret not in caplog.text
        assert not [file for file in files if secret.encode() in file.read_bytes()]


async def test_the_same_idempotency_key_of_another_key_is_another_request(here: House) -> None:
    alices = await make_key(here, "a", user="alice")
    again = await make_key(here, "b", user="alice")
    once = {"Idempotency-Key": "one"}
    async with client(here, alices) as first, client(here, again) as second:
        for name, by in (("x", first), ("y", second)):
            made = await by.post(f"{PROJECT}/agents", json={"metadata": {"name": name}}, headers=once)
            assert made.status_code == 201, made.text


async def test_only_the_operator_names_model_files_of_the_server(here: House) -> None:
    await here.agent()
    key = await make_key(here, scopes=["agentruns:write", "*:read"])
    spec = {"agent": "helper", "input": "hi", "model": {"access": "OnDemand", "name": "/models/any.gguf"}}
    run = {"kind": "AgentRun", "metadata": {"generateName": "r-"}, "spec": spec}
    async with client(here, key) as other:
        refused = await other.post(f"{PROJECT}/agentruns", json=run)
        assert (refused.status_code, refused.json()["details"]["causes"][0]["field"]) == (422, "spec.model.name")
        plain = {**run, "spec": {"agent": "helper", "input": "hi"}}
        assert (await other.post(f"{PROJECT}/agentruns", json=plain)).status_code == 201
    assert (await here.post("agentruns", run)).status_code == 201
