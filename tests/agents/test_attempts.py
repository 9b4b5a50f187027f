"""What a model call's step tells of the attempts that failed, charged and free ones."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from corral.testing.model import serve_model
from house import House, house


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    async with serve_model() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-server")
        async with house(tmp_path / "home", model="anthropic/claude-sonnet-5-5") as here:
            await here.agent()
            yield here


async def test_an_overloaded_service_and_a_lost_answer_are_both_told(here: House) -> None:
    status, steps, _ = await here.finished("go [[fake:tool_calls=0]] [[fake:error=529x1]] [[fake:cut=2]]")
    assert status["phase"] == "Succeeded", status
    call = steps[-1]
    overloaded, lost = call["detail"]["attempts"]
    assert (overloaded["outcome"], overloaded["status"]) == ("Overloaded", 529)
    assert "costUSD" not in overloaded
    assert lost["outcome"] == "Uncertain"
    assert Decimal(status["cost"]["totalUSD"]) == Decimal(call["costUSD"]) > Decimal(lost["costUSD"]) > 0


async def test_a_call_that_failed_for_good_keeps_its_attempts(here: House) -> None:
    status, steps, _ = await here.finished("go [[fake:error=401]]")
    assert (status["phase"], status["reason"]) == ("Failed", "ModelRejected")
    assert [(tried["outcome"], tried["status"]) for tried in steps[-1]["detail"]["attempts"]] == [("Rejected", 401)]
    assert status["cost"]["totalUSD"] == "0.00"
