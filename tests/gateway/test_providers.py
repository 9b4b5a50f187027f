"""Every way a model service can fail, over real sockets: what it means, and that a request is sent once."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import httpx2
import pytest

from corral.base import plugins
from corral.gateway import dialects, providers
from corral.gateway.call import CallError, NotSent, Overloaded, Provider, ProviderSettings, Rejected, Request, Uncertain
from corral.gateway.providers import anthropic, openai
from corral.testing.model import serve_model

Connect = Callable[..., AbstractAsyncContextManager[Provider]]
Ask = Callable[..., Request]
ServeRaw = Callable[..., AbstractAsyncContextManager[Any]]

FAULTS = [
    ("[[fake:error=429]] [[fake:retry_after=2]]", Overloaded, 429, "rate limit"),
    ("[[fake:error=529]]", Overloaded, 529, "Overloaded"),
    ("[[fake:error=529]] [[fake:plain=1]]", Overloaded, 529, "HTTP 529"),
    ("[[fake:error=500]]", Overloaded, 500, "scripted failure"),
    ("[[fake:error=503]]", Overloaded, 503, "scripted failure"),
    ("[[fake:error=500]] [[fake:plain=1]]", Uncertain, 500, "HTTP 500"),
    ("[[fake:error=503]] [[fake:plain=1]]", Uncertain, 503, "HTTP 503"),
    ("[[fake:error=502]]", Uncertain, 502, "scripted failure"),
    ("[[fake:error=504]] [[fake:plain=1]]", Uncertain, 504, "HTTP 504"),
    ("[[fake:error=524]] [[fake:plain=1]]", Uncertain, 524, "HTTP 524"),
    ("[[fake:error=408]]", Uncertain, 408, "scripted failure"),
    ("[[fake:error=400]]", Rejected, 400, "scripted failure"),
    ("[[fake:error=401]]", Rejected, 401, "scripted failure"),
    ("[[fake:error=402]]", Rejected, 402, "scripted failure"),
    ("[[fake:error=403]]", Rejected, 403, "scripted failure"),
    ("[[fake:error=404]]", Rejected, 404, "scripted failure"),
    ("[[fake:error=413]]", Rejected, 413, "scripted failure"),
    ("[[fake:error=422]]", Rejected, 422, "scripted failure"),
    ("[[fake:context=10]]", Rejected, 400, "prompt is too long"),
    ("[[fake:drop=1]]", Uncertain, None, "without sending a response"),
    ("[[fake:cut=1]]", Uncertain, None, "before the answer was complete"),
    ("[[fake:stream_error=1]]", Uncertain, 200, "Overloaded in the middle"),
    ("[[fake:bad_frame=1]]", Uncertain, 200, "malformed frame"),
]


async def _stats(url: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        found: dict[str, Any] = (await client.get(f"{url}/stats")).json()
        return found


@pytest.mark.parametrize(("directives", "outcome", "status", "text"), FAULTS)
async def test_a_fault_is_told_apart_and_sent_once(
    connect: Connect, ask: Ask, key: str, directives: str, outcome: type[CallError], status: int | None, text: str
) -> None:
    async with serve_model() as url, connect(url) as provider:
        with pytest.raises(CallError) as caught:
            await provider.call(ask(f"go {directives}"))
        error = caught.value
        assert (type(error), error.status) == (outcome, status)
        assert text in str(error)
        assert key not in repr(error)
        assert error.retry_after == (2.0 if "retry_after" in directives else None)
        assert (await _stats(url))["counts"]["requests"] == 1


async def test_too_long_prompts_have_a_type_of_their_own(connect: Connect, ask: Ask) -> None:
    async with serve_model() as url, connect(url) as provider:
        for directives in ("[[fake:context=10]]", "[[fake:error=413]]"):
            with pytest.raises(Rejected) as caught:
                await provider.call(ask(directives))
            assert caught.value.type == "context_too_long"


async def test_a_silent_service_is_an_unknown_outcome(connect: Connect, ask: Ask) -> None:
    async with serve_model() as url, connect(url, read_timeout=0.2) as provider:
        with pytest.raises(Uncertain, match="read timeout"):
            await provider.call(ask("go [[fake:hang=1]]"))
        assert (await _stats(url))["counts"] == {"requests": 1, "hang": 1}


async def test_what_cannot_be_reached_was_not_sent(connect: Connect, ask: Ask) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        for url in (f"http://127.0.0.1:{port}", "http://no-such-host.invalid"):
            async with connect(url) as provider:
                with pytest.raises(NotSent, match="cannot reach"):
                    await provider.call(ask("go"))


async def test_a_failed_handshake_was_not_sent(connect: Connect, ask: Ask) -> None:
    async def no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"this is not TLS\n")
        writer.close()

    async with await asyncio.start_server(no_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"https://127.0.0.1:{port}") as provider:
            with pytest.raises(NotSent, match="cannot reach"):
                await provider.call(ask("go"))


async def test_replies(connect: Connect, ask: Ask) -> None:
    shown: list[str] = []

    async def on_delta(text: str) -> None:
        shown.append(text)

    async with serve_model() as url, connect(url) as provider:
        reply = await provider.call(ask("go"))
        assert (reply.stop, reply.request_id, reply.model) == ("tool_use", "req_fake", "m")
        assert reply.content[0]["input"] == {"command": "echo step-0"}
        reply = await provider.call(
            ask("go [[fake:tool_calls=0]] [[fake:answer=all done]] [[fake:drip=0.01]]"), on_delta
        )
        assert reply.content == [{"type": "text", "text": "all done"}]
        assert "".join(shown) == "all done"
        assert len(shown) > 1
        reply = await provider.call(ask("go [[fake:tool_calls=0]] [[fake:stop=max_tokens]]"))
        assert reply.stop == "max_tokens"


async def test_usage_costs_what_it_should(connect: Connect, ask: Ask) -> None:
    async with serve_model() as url, connect(url) as provider:
        price = anthropic.create_provider(ProviderSettings(api_key="k")).price("claude-sonnet-4-5")
        assert price is not None
        total = 0
        for tokens in ("3,550,0,12304", "9,100,17102,0"):
            reply = await provider.call(ask(f"go [[fake:tokens={tokens}]]"))
            assert reply.usage is not None
            total += price.cost(reply.usage)
        assert total == 54_399_000 + 6_657_600
        assert (await provider.call(ask("go [[fake:no_usage=1]]"))).usage is None


async def test_strange_text_and_bad_arguments_are_complete_replies(connect: Connect, ask: Ask) -> None:
    async with serve_model() as url, connect(url) as provider:
        text = (await provider.call(ask("go [[fake:tool_calls=0]] [[fake:unicode=1]]"))).content[0]["text"]
        assert "\U0001f680" in text
        assert text.endswith("\ufffd!")
        assert "\x00" not in text
        reply = await provider.call(ask("go [[fake:bad_json=1]]"))
        assert reply.content[0]["input"] == {"_malformed": '{"command": "ls'}
        long = await provider.call(ask("go [[fake:tool_calls=0]] [[fake:size=300000]]"))
        assert len(long.content[0]["text"]) == 300_000


async def test_strange_text_can_be_sent(connect: Connect, ask: Ask) -> None:
    async with serve_model() as url, connect(url) as provider:
        reply = await provider.call(
            ask("\ud800 \x00 \U0001f680 {prompt} [[fake:tool_calls=0]] [[fake:answer={prompt}]]")
        )
        assert reply.content[0]["text"] == "\ufffd \ufffd \U0001f680 {prompt}"


async def test_a_cancelled_call_leaves_the_service(connect: Connect, ask: Ask) -> None:
    async with serve_model() as url, connect(url) as provider:
        async with anyio.create_task_group() as group:
            group.start_soon(provider.call, ask("go [[fake:hang=1]]"))
            await _until(url, active=1)
            group.cancel_scope.cancel()
        await _until(url, active=0)
        assert (await provider.call(ask("go"))).stop == "tool_use"


async def _until(url: str, active: int) -> None:
    with anyio.fail_after(10):
        while (await _stats(url))["active"] != active:
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "bad key KEY", "type": "KEY"}}',
        '{"error": {"message": "\\u0073k-canary-0123456789abcdef is wrong\\n\\u001b[31m"}}',
        '{"error": {"message": "Bearer KEY, c2stY2FuYXJ5LTAxMjM0NTY3ODlhYmNkZWY="}}',
        '{"error": {"message": "PADDING KEY"}}',
        "<html>KEY</html>",
        '"KEY"',
    ],
)
@pytest.mark.parametrize("status", [401, 503, 529])
async def test_no_error_shows_the_key(
    connect: Connect, ask: Ask, key: str, raw: ServeRaw, body: str, status: int
) -> None:
    text = body.replace("KEY", key).replace("PADDING", "x" * 480).encode()
    head = f"HTTP/1.1 {status} X\r\nretry-after: {key}\r\ncontent-length: {len(text)}\r\n\r\n"
    async with raw(head.encode() + text) as service, connect(service.url) as provider:
        with pytest.raises(CallError) as caught:
            await provider.call(ask("go"))
        shown = f"{caught.value!r} {caught.value.type} {caught.value.__cause__!r}"
        assert key.encode() in service.requests[0]
        assert key[:12] not in shown
        assert "c2stY2FuYXJ5" not in shown
        assert len(str(caught.value)) <= 503
        assert str(caught.value).isprintable()
        assert caught.value.retry_after is None


@pytest.mark.parametrize(
    ("answer", "outcome", "text"),
    [
        (b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", Rejected, "redirects"),
        (b"HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n", Uncertain, "HTTP 204"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n<html>hi</html>", Uncertain, "ended before"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\n<zip>", Uncertain, "DecodingError"),
        (b"HTTP/1.1 529 X\r\ncontent-length: 900\r\n\r\n{", Overloaded, "HTTP 529"),
        (b"HTTP/1.1 429 X\r\ncontent-length: 900000\r\n\r\n" + b"x" * 900_000, Overloaded, "HTTP 429"),
        (b"no http at all\r\n\r\n", Uncertain, "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: " + b"x" * (17 << 20), Uncertain, "Large"),
    ],
)  # fmt: skip
async def test_odd_answers(
    connect: Connect, ask: Ask, raw: ServeRaw, answer: bytes, outcome: type[CallError], text: str
) -> None:
    async with raw(answer) as service, connect(service.url) as provider:
        with pytest.raises(CallError) as caught:
            await provider.call(ask("go"))
        assert type(caught.value) is outcome
        assert text in str(caught.value)
        assert len(service.requests) == 1


_COMPLETE = {
    "anthropic": (
        b'data: {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}}\n\n'
        b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}\n\n'
        b'data: {"type": "message_stop"}\n\n'
    ),
    "openai": b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n',
}


async def test_a_connection_that_breaks_after_the_last_event_changes_nothing(
    connect: Connect, ask: Ask, raw: ServeRaw, dialect: str
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\nx-request-id: r1\r\n\r\n"
    async with raw(head + _COMPLETE[dialect]) as service, connect(service.url) as provider:
        reply = await provider.call(ask("go"))
        assert (reply.stop, reply.request_id) == ("end_turn", "r1")


async def test_a_service_that_does_not_end_the_response_is_not_waited_for(
    connect: Connect, ask: Ask, raw: ServeRaw, dialect: str
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n"
    async with raw(head + _COMPLETE[dialect], keep=True) as service, connect(service.url) as provider:
        with anyio.fail_after(10):
            assert (await provider.call(ask("go"))).stop == "end_turn"


async def test_calls_share_a_connection(connect: Connect, ask: Ask, raw: ServeRaw, dialect: str) -> None:
    body = _COMPLETE[dialect]
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    async with raw(head + body, keep=True) as service, connect(service.url) as provider:
        for _ in range(3):
            await provider.call(ask("go"))
        assert (len(service.requests), service.connections) == (3, 1)


async def test_a_connection_that_the_service_closed_meanwhile_is_not_used_again(
    connect: Connect, ask: Ask, raw: ServeRaw, dialect: str
) -> None:
    body = _COMPLETE[dialect]
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    async with raw(head + body) as service, connect(service.url) as provider:
        for number in range(1, 4):
            await provider.call(ask("go"))
            with anyio.fail_after(10):
                while service.closed != number:
                    await anyio.sleep(0.01)
        assert (len(service.requests), service.connections) == (3, 3)


async def test_paths_and_headers(connect: Connect, ask: Ask, raw: ServeRaw, key: str, dialect: str) -> None:
    path = {"anthropic": "/messages", "openai": "/chat/completions"}[dialect]
    header = {"anthropic": f"x-api-key: {key}", "openai": f"authorization: bearer {key}"}[dialect]
    async with raw(b"HTTP/1.1 400 X\r\ncontent-length: 0\r\n\r\n") as service:
        for base in ("", "/", "/v1", "/v1/", "/proxy"):
            async with connect(service.url + base) as provider:
                with pytest.raises(Rejected):
                    await provider.call(ask("go"))
        heads = [request.split(b"\r\n\r\n")[0].decode().lower() for request in service.requests]
        prefix = "/proxy/v1"
        assert [head.split()[1] for head in heads] == [f"/v1{path}"] * 4 + [prefix + path]
        assert all(f"{header}\r\n" in head + "\r\n" for head in heads)
        assert all("anthropic-version: 2023-06-01" in head for head in heads if dialect == "anthropic")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (ProviderSettings(), "needs an API key"),
        (ProviderSettings(api_key="sk-canary key\n"), "copy it again"),
        (ProviderSettings(api_key="k", base_url="ftp://x"), "http or https address"),
        (ProviderSettings(api_key="k", base_url="x.test"), "http or https address"),
        (ProviderSettings(api_key="k", base_url="https://user:sk-canary@x.test"), "no user name"),
        (ProviderSettings(api_key="k", base_url="https://x.test/v1?key=sk-canary"), "query"),
        (ProviderSettings(api_key="k", base_url="http://8.8.8.8/v1"), "write https"),
        (ProviderSettings(api_key="k", base_url="http://api.anthropic.com"), "write https"),
    ],
)
def test_settings_that_cannot_be_right(settings: ProviderSettings, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        anthropic.create_provider(settings)
    assert "canary" not in str(caught.value)


async def test_servers_of_ones_own_need_neither_key_nor_https(ask: Ask) -> None:
    for create in (anthropic.create_provider, openai.create_provider):
        async with serve_model() as url:
            provider = create(ProviderSettings(base_url=url.replace("127.0.0.1", "localhost")))
            assert (await provider.call(ask("go"))).stop == "tool_use"
            await provider.aclose()


def test_the_plug_ins_are_found() -> None:
    assert {"anthropic", "openai", "scripted"} <= set(plugins.names(providers))
    assert {"anthropic", "openai_chat"} <= set(plugins.names(dialects))
