"""The scripted model service as other tests use it: in this process, in its own, and by any HTTP client."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx2
import pytest

from corral.testing.model import model_process, serve_model

_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


class Client:
    """Speaks one wire, streaming or not, and shows what matters in the same words."""

    def __init__(self, url: str, wire: str, stream: bool) -> None:
        self.url, self.wire, self.stream = url, wire, stream
        self.http = httpx2.AsyncClient(base_url=url, trust_env=False, timeout=20)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.http.aclose()

    async def post(self, *messages: dict[str, Any], **more: Any) -> httpx2.Response:
        tool = {"name": "Bash", "input_schema": _SCHEMA}
        path = "/v1/messages"
        if self.wire == "chat":
            tool = {"type": "function", "function": {"name": "Bash", "parameters": _SCHEMA}}
            path = "/v1/chat/completions"
            more["stream_options"] = {"include_usage": True}
        body = {"model": "m", "messages": list(messages), "tools": [tool], "stream": self.stream, **more}
        return await self.http.post(path, json=body)

    async def text(self, *messages: dict[str, Any]) -> str:
        response = await self.post(*messages)
        assert response.status_code == 200
        return response.text

    async def get(self, path: str) -> Any:
        return (await self.http.get(path)).json()


@pytest.fixture(params=["messages", "chat"])
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _done(wire: str, output: str) -> list[dict[str, Any]]:
    if wire == "chat":
        function = {"name": "Bash", "arguments": "{}"}
        call = {"id": "a", "type": "function", "function": function}
        return [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": output},
        ]
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": output}]},
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn(wire: str, stream: bool) -> None:
    async with serve_model() as url, Client(url, wire, stream) as client:
        first = await client.text(_user("hello"))
        assert "step-" in first
        assert "Bash" in first
        assert "usage" in first
        if stream:
            assert first.endswith("data: [DONE]\n\n" if wire == "chat" else 'data: {"type": "message_stop"}\n\n')
        last = await client.text(_user("hello"), *_done(wire, "OUT"))
        assert "OUT" in last
        assert "Bash" not in last
        assert "Bash" in await client.text(_user("hello"), *_done(wire, "OUT"), _user("again"))
        stats = await client.get("/stats")
        assert stats["counts"] == {"requests": 3, "ok": 3, "tool_replies": 2, "answers": 1}
        assert (stats["duplicates"], stats["distinct_ok"], stats["active"]) == (0, 3, 0)


async def test_duplicates_are_identical_calls_that_were_answered(wire: str) -> None:
    async with serve_model() as url, Client(url, wire, stream=True) as client:
        cut = _user("cut [[fake:cut=1]]")
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post(cut)
        await client.post(cut)
        assert (await client.get("/stats"))["duplicates"] == 0
        await client.post(cut)
        assert (await client.get("/stats"))["duplicates"] == 1
        await client.http.post("/reset")
        assert (await client.get("/stats"))["duplicates"] == 0


async def test_errors_come_for_so_many_attempts_and_at_one_step(wire: str) -> None:
    async with serve_model() as url, Client(url, wire, stream=False) as client:
        prompt = _user("e [[fake:error=529x2]] [[fake:retry_after=3]]")
        answers = [await client.post(prompt) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [529, 529, 200]
        assert answers[0].headers["retry-after"] == "3"
        assert answers[0].json()["error"]["type"] == "overloaded_error"
        later = _user("e [[fake:error=500]] [[fake:error_at=1]]")
        assert (await client.post(later)).status_code == 200
        assert (await client.post(later, *_done(wire, "x"))).status_code == 500
        assert [row["status"] for row in await client.get("/requests")] == [529, 529, 200, 200, 500]


async def test_rules_and_defaults_give_way_to_the_prompt(wire: str) -> None:
    async with serve_model(tool_calls=0, answer="default") as url, Client(url, wire, stream=False) as client:
        rules = [{"match": "^sp.cial", "script": {"answer": "rule"}}]
        assert (await client.http.post("/rules", json=rules)).json() == {"rules": 1}
        assert "default" in await client.text(_user("plain"))
        assert "rule" in await client.text(_user("special"))
        assert "mine" in await client.text(_user("special [[fake:answer=mine]]"))
        assert (await client.http.post("/rules", json=[{"match": "("}])).status_code == 400


async def test_the_log_of_requests(wire: str) -> None:
    async with serve_model() as url, Client(url, wire, stream=False) as client:
        await client.post(_user("hello"), *_done(wire, "x"))
        (row,) = await client.get("/requests")
        assert (row["api"], row["step"], row["attempt"], row["prompt"], row["status"]) == (wire, 1, 1, "hello", 200)
        assert "body" not in row
        (full,) = await client.get("/requests?full=1")
        assert full["body"]["messages"][0] == _user("hello")
        assert await client.get("/healthz") == {"ok": True}
        assert "fake" in [model["id"] for model in (await client.get("/v1/models"))["data"]]


async def test_the_prompt_cache_is_written_then_read() -> None:
    async with serve_model(tool_calls=0) as url, Client(url, "messages", stream=False) as client:
        system = [{"type": "text", "text": "s" * 8000, "cache_control": {"type": "ephemeral"}}]
        first = (await client.post(_user("q"), system=system)).json()["usage"]
        second = (await client.post(_user("other"), system=system)).json()["usage"]
        assert first["cache_creation_input_tokens"] > 1900
        assert (first["cache_read_input_tokens"], second["cache_creation_input_tokens"]) == (0, 0)
        assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    async with serve_model(tool_calls=0) as url, Client(url, "chat", stream=False) as client:
        long = _user("q" * 8000)
        counts = [(await client.post(long)).json()["usage"] for _ in range(2)]
        assert [count["prompt_tokens_details"]["cached_tokens"] > 1900 for count in counts] == [False, True]
        assert counts[0]["prompt_tokens"] == counts[1]["prompt_tokens"]


async def test_concurrency_is_measured_and_the_end_drops_who_waits(wire: str) -> None:
    async with AsyncExitStack() as stack:
        async with serve_model() as url:
            client = await stack.enter_async_context(Client(url, wire, stream=False))
            tasks = [asyncio.create_task(client.post(_user(f"{n} [[fake:hang=1]]"))) for n in range(5)]
            with anyio.fail_after(10):
                while (await client.get("/stats"))["active"] != 5:
                    await anyio.sleep(0.01)
            assert (await client.get("/stats"))["peak_concurrency"] == 5
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, httpx2.HTTPError) for result in results)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/v1/messages", b"{", 400), ("/v1/messages", b"[]", 400), ("/v1/messages", b'{"messages": [3]}', 400),
     ("/v1/chat/completions", b'{"tools": [{"function": {}}]}', 400), ("/v1/other", b"{}", 404)],
)  # fmt: skip
async def test_what_cannot_be_read_is_refused(path: str, body: bytes, status: int) -> None:
    async with serve_model() as url, httpx2.AsyncClient(trust_env=False) as client:
        response = await client.post(url + path, content=body)
        assert (response.status_code, response.json()["error"]["type"] != "") == (status, True)
        assert (await client.get(f"{url}/stats")).json()["active"] == 0


def test_a_process_of_its_own() -> None:
    with model_process(tool_calls=0, answer="from afar") as url:
        body = json.dumps({"messages": [_user("hi")]}).encode()
        request = urllib.request.Request(f"{url}/v1/messages", body)
        with urllib.request.urlopen(request, timeout=10) as response:
            assert json.load(response)["content"] == [{"type": "text", "text": "from afar"}]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(request, timeout=10)


def test_a_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "corral.testing.model", "--set", "delay"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert "KEY=VALUE" in ended.stderr
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(RuntimeError, match="did not start"), model_process():
        raise AssertionError("the process has started")
