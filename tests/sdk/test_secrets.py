"""Secrets against a whole server: versions, names from values, and that a sandbox gets them."""

import uuid

import pytest

import corral
from corral import errors

pytestmark = pytest.mark.usefixtures("server")


def named() -> str:
    return f"secret-{uuid.uuid4().hex[:8]}"


def test_creating_twice_makes_a_version() -> None:
    name = named()
    secret = corral.Secret.create(name, {"A": "first"})
    corral.Secret.create(name, {"A": "second", "B": "x"})
    found = corral.Client().get("Secret", name)
    assert (found.status.version, found.status["keys"]) == (2, ["A", "B"])
    assert "second" not in str(found)
    secret.update({"C": "third"})
    assert corral.Client().get("Secret", name).status.version == 3
    secret.delete()
    with pytest.raises(errors.NotFound):
        corral.Secret.from_name(name).delete()


async def test_creating_in_asyncio_code() -> None:
    name = named()
    secret = await corral.Secret.create.aio(name, {"A": "first"})
    assert secret.name == name
    await secret.delete.aio()


def test_values_reach_the_sandbox() -> None:
    values = corral.Secret.from_dict({"TOKEN": f"t0k3n-{uuid.uuid4().hex}"})
    assert values.name is None
    agent = corral.Agent(f"agent-{uuid.uuid4().hex[:8]}", secrets=[values, corral.Secret.create(named(), {"A": "a"})])
    assert agent.remote("[[fake:command=wc -c < /run/secrets/TOKEN]]").split() == ["Done:", "exit", "code", "0", "38"]
    assert values.name is not None
    assert corral.Client().get("Secret", values.name).status.version == 1
    assert values.name in agent.deploy().spec.secrets


def test_the_same_values_are_one_secret() -> None:
    data = {"K": uuid.uuid4().hex}
    names = []
    for _ in range(2):
        secret = corral.Secret.from_dict(data)
        corral.Agent(f"agent-{uuid.uuid4().hex[:8]}", secrets=[secret]).deploy()
        names.append(secret.name)
    assert names[0] == names[1]
    assert data["K"] not in str(names)


def test_what_cannot_be() -> None:
    with pytest.raises(errors.UsageError, match="needs a name or data"):
        corral.Secret()
    with pytest.raises(errors.UsageError, match="no name yet"):
        corral.Secret.from_dict({"A": "b"}).update({"A": "c"})
    assert "b" not in repr(corral.Secret("x", data={"A": "b"})).replace("<", "")
