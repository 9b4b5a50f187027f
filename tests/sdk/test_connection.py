"""The client of all kinds, against a whole server."""

import threading
import uuid

import pytest

import corral
from corral import errors
from corral.sdk._find import Server

pytestmark = pytest.mark.usefixtures("server")


def agent(name: str, **spec: object) -> dict[str, object]:
    return {"kind": "Agent", "metadata": {"name": name, "labels": {"test": name}}, "spec": spec}


def test_an_object_by_any_name_of_its_kind() -> None:
    client, name = corral.Client(), f"a-{uuid.uuid4().hex[:8]}"
    created = client.create(agent(name, system="x"))
    assert created.metadata.generation == 1
    for kind in ("Agent", "agents", "agent"):
        assert client.get(kind, name).metadata.uid == created.metadata.uid
    assert [item.metadata.name for item in client.list("Agent", labels=f"test={name}")] == [name]
    assert client.apply(agent(name, system="y")).spec.system == "y"
    assert client.patch("Agent", name, {"spec": {"maxTokens": 5}}).spec.max_tokens == 5
    with pytest.raises(errors.AlreadyExists) as caught:
        client.create(agent(name, system="z"))
    assert caught.value.diff["spec.system"]["want"] == "z"
    client.delete("Agent", name)
    with pytest.raises(errors.NotFound):
        client.get("Agent", name)


def test_watching_begins_with_what_exists() -> None:
    client, name = corral.Client(), f"a-{uuid.uuid4().hex[:8]}"
    client.create(agent(name))
    changes = client.watch("Agent", labels=f"test={name}")
    assert next(changes).type == "ADDED"
    changer = threading.Thread(target=client.patch, args=("Agent", name, {"spec": {"system": "new"}}))
    changer.start()
    change = next(changes)
    changer.join()
    assert (change.type, change.object.spec.system) == ("MODIFIED", "new")


async def test_both_forms() -> None:
    client, name = corral.Client(), f"a-{uuid.uuid4().hex[:8]}"
    await client.create.aio(agent(name))
    found = [change.object.metadata.name async for change in _first(client, name)]
    assert found == [name]


async def _first(client: corral.Client, name: str):  # type: ignore[no-untyped-def]
    changes = client.watch.aio("Agent", fields=f"metadata.name={name}")
    yield await anext(changes)
    await changes.aclose()


def test_refusals(server: Server) -> None:
    with pytest.raises(errors.Unauthorized) as caught:
        corral.Client(server.url, "wrong").list("Agent")
    assert caught.value.request_id.startswith("req_")
    with pytest.raises(errors.NotFound):
        corral.Client().list("things-from-the-future")
    with pytest.raises(errors.UsageError, match="there is no kind"):
        corral.Client().create({"metadata": {"name": "x"}})
    with pytest.raises(errors.Invalid) as invalid:
        corral.Client().create(agent("x", fromTheFuture=1))
    assert invalid.value.causes[0].field == "spec.fromTheFuture"
