"""Models on a user's own key: nothing is charged, the key is shown nowhere, and rules say which value it is."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from corral.testing.model import serve_model
from house import PROJECT, House, house

KEY = "sk-canary-of-the-user"


async def secret(here: House, **values: str) -> None:
    document = {"kind": "Secret", "metadata": {"name": "model-key"}, "spec": {"stringData": values}}
    assert (await here.post("secrets", document)).status_code == 201


def own(**more: Any) -> dict[str, Any]:
    return {"access": "BYOK", "name": "claude-sonnet-5-5", "apiKeySecret": "model-key", **more}


@pytest.mark.parametrize("protocol", ["Anthropic", "OpenAI"])
async def test_a_run_on_the_users_key_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    async with serve_model() as url:
        monkeypatch.setenv(f"{protocol.upper()}_BASE_URL", url)
        home = tmp_path / "home"
        async with house(home) as here:
            await secret(here, ANTHROPIC_API_KEY=KEY)
            await here.agent(model=own(protocol=protocol))
            status, steps, answer = await here.finished("go [[fake:command=echo hi; env]]")
            async with httpx2.AsyncClient(trust_env=False) as client:
                seen = (await client.get(f"{url}/stats")).json()
        assert (status["phase"], status["cost"]["totalUSD"]) == ("Succeeded", "0.00")
        assert status["turns"][0]["inputTokens"] > 0
        assert seen["counts"]["requests"] == 2
        assert KEY not in json.dumps(steps) + answer
        for file in home.rglob("*"):
            if file.is_file():
                assert KEY.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("values", "more", "told"),
    [
        ({}, {}, "there is no secret"),
        ({"A": KEY, "B": KEY}, {}, "none is named ANTHROPIC_API_KEY"),
        ({"A": KEY}, {"apiKeyField": "B"}, "has no value 'B'"),
    ],
)
async def test_which_value_is_the_key_must_be_clear(
    tmp_path: Path, values: dict[str, str], more: dict[str, str], told: str
) -> None:
    async with house(tmp_path / "home") as here:
        if values:
            await secret(here, **values)
        await here.agent(model=own(**more))
        refused = await here.run("hi")
    assert refused.status_code == 422
    assert told in refused.text


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"access": "BYOK", "name": "x"}, "needs apiKeySecret"),
        ({"access": "BYOK", "apiKeySecret": "s", "protocol": "OpenAI"}, "needs name"),
        ({"access": "Nodus", "apiKeySecret": "s"}, "belong to access BYOK"),
        ({"access": "OnDemand"}, "needs name"),
        ({"access": "Hosted"}, "Input should be 'Nodus', 'OnDemand' or 'BYOK'"),
    ],
)
async def test_fields_of_a_model_belong_together(tmp_path: Path, model: dict[str, Any], told: str) -> None:
    async with house(tmp_path / "home") as here:
        refused = await here.client.post(
            f"{PROJECT}/agents", json={"kind": "Agent", "metadata": {"name": "a"}, "spec": {"model": model}}
        )
    assert refused.status_code == 422
    assert told in refused.text


async def test_a_network_that_sandboxes_do_not_have_is_refused(tmp_path: Path) -> None:
    async with house(tmp_path / "home") as here:
        await here.agent(network={"egress": {"policy": "Open"}})
        refused = await here.run("hi")
    assert (refused.status_code, refused.json()["reason"]) == (422, "Unsupported")


async def test_families_choose_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_model() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-operator")
        async with house(tmp_path / "home", model="") as here:
            await secret(here, KEY=KEY)
            await here.agent()
            for families, chosen in (
                (None, "sonnet-5-5"),
                (["haiku"], "haiku-5-5"),
                (["haiku", "fable"], "haiku-5-5"),
                (["opus", "fable"], "opus-5-5"),
            ):
                model = {"families": families} if families else {}
                created = await here.run("hi", model={"access": "Nodus", **model})
                assert created.json()["status"]["model"] == f"anthropic/claude-{chosen}"
                brought = {"access": "BYOK", "apiKeySecret": "model-key", **model}
                created = await here.run("hi", model=brought)
                assert created.json()["status"]["model"] == f"anthropic/claude-{chosen}"
