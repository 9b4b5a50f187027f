"""Text of every sort goes through: prompts, messages and answers keep it; outputs show U+FFFD where none can be."""

from pathlib import Path

import httpx2
import pytest

from conftest import Place
from corral.testing.model import serve_model
from house import PROJECT, house

ODD = (
    "na\u00efve e\u0301 \U0001f680 \u05e9\u05dc\u05d5\u05dd \u202eRTL\u202c \u0000 \u001b[31mred \u4f60\u597d \r\n end"
)


async def test_odd_text_survives_the_whole_way(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = None if place.dialect == "sqlite" else place.address
    async with serve_model() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-x")
        async with house(tmp_path / "home", database, model="") as here:
            await here.agent(system=ODD)
            prompt = f"{ODD} [[fake:unicode=1]] [[fake:command=printf '\\xff\\xfe\\xf0\\x9f\\x9a\\x80'; ls]]"
            created = await here.run(prompt, "odd", keepAlive=True)
            assert created.status_code == 201
            assert created.json()["spec"]["input"] == prompt
            answer = await here.client.get(f"{PROJECT}/agentruns/odd/answer")
            assert "\U0001f680" in answer.text
            sent = {"payload": {"list": [ODD]}, "messageKey": "odd-\U0001f680"}
            receipt = await here.client.post(f"{PROJECT}/agentruns/odd/messages", json=sent)
            assert receipt.json()["messageKey"] == "odd-\U0001f680"
            assert (await here.client.get(f"{PROJECT}/agentruns/odd/answer")).status_code == 200
            run = (await here.client.get(f"{PROJECT}/agentruns/odd")).json()
            assert [turn["prompt"] for turn in run["status"]["turns"]] == ["input", "odd-\U0001f680"]
            steps = (await here.client.get(f"{PROJECT}/agentruns/odd/steps")).json()["items"]
            output = next(step["detail"]["output"] for step in steps if step["name"] == "tool")
            assert output.startswith("\ufffd\ufffd\U0001f680")
            async with httpx2.AsyncClient(trust_env=False) as client:
                seen = (await client.get(f"{url}/requests?full=1")).json()
    assert any("\\u0000" in str(row) or "\u0000" in str(row) for row in seen), "the prompt reaches the model as it is"
