"""Both wires: what goes out keeps the shape of the conversation, and what comes in is the same reply."""

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.gateway.call import Message, Request, Tool, Uncertain, Usage
from corral.gateway.dialects import anthropic, openai_chat

_WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)


@st.composite
def _conversations(draw: st.DrawFn) -> list[Message]:
    """A prompt, then rounds of calls and their results, as an agent leaves them."""
    messages: list[Message] = [{"role": "user", "content": [{"type": "text", "text": draw(_WORDS)}]}]
    for turn in range(draw(st.integers(0, 4))):
        said = [{"type": "text", "text": draw(_WORDS)}] if draw(st.booleans()) else []
        ids = [f"t{turn}-{i}" for i in range(draw(st.integers(1, 3)))]
        calls = [{"type": "tool_use", "id": i, "name": "shell", "input": {"command": draw(_WORDS)}} for i in ids]
        results = [{"type": "tool_result", "tool_use_id": i, "content": draw(_WORDS)} for i in ids]
        note = [{"type": "text", "text": draw(_WORDS)}] if draw(st.booleans()) else []
        messages += [{"role": "assistant", "content": said + calls}, {"role": "user", "content": results + note}]
    return messages


def _request(messages: list[Message], **changes: Any) -> Request:
    given = {"model": "m", "system": "You work.", "tools": [Tool("shell", "Run.", {"type": "object"})], "max_tokens": 9}
    return Request(messages=messages, **{**given, **changes})


def _canonical(body: dict[str, Any]) -> list[Message]:
    """The conversation that an OpenAI body tells, read by its own rules."""
    out: list[Message] = []
    for message in body["messages"]:
        if message["role"] == "system":
            continue
        role = "user" if message["role"] == "tool" else message["role"]
        blocks: list[dict[str, Any]] = []
        if message["role"] == "tool":
            assert isinstance(message["content"], str)
            blocks.append(
                {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            )
        elif message["content"]:
            blocks.append({"type": "text", "text": message["content"]})
        for call in message.get("tool_calls") or []:
            arguments = json.loads(call["function"]["arguments"])
            blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments})
        if out and out[-1]["role"] == role == "user":
            out[-1]["content"] += blocks
        else:
            out.append({"role": role, "content": blocks})
    return out


@given(_conversations())
def test_a_conversation_survives_both_wires(messages: list[Message]) -> None:
    request = _request(messages)
    assert _canonical(openai_chat.encode(request)) == messages
    sent = json.loads(json.dumps(anthropic.encode(request)["messages"]).replace(
        ', "cache_control": {"type": "ephemeral"}', ""))  # fmt: skip
    assert sent == messages


@given(_conversations())
def test_each_call_is_followed_by_its_results(messages: list[Message]) -> None:
    waiting: list[str] = []
    for message in openai_chat.encode(_request(messages))["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls") or []]
    assert waiting == []


def test_the_bodies_carry_limits_system_and_tools() -> None:
    request = _request([{"role": "user", "content": "hello"}])
    body = anthropic.encode(request)
    assert (body["model"], body["max_tokens"], body["stream"]) == ("m", 9, True)
    assert body["tools"] == [{"name": "shell", "description": "Run.", "input_schema": {"type": "object"}}]
    assert body["system"] == [{"type": "text", "text": "You work.", "cache_control": {"type": "ephemeral"}}]
    body = openai_chat.encode(request)
    assert body["messages"] == [{"role": "system", "content": "You work."}, {"role": "user", "content": "hello"}]
    assert body["tools"][0]["function"] == {"name": "shell", "description": "Run.", "parameters": {"type": "object"}}
    assert (body["max_tokens"], body["stream_options"]) == (9, {"include_usage": True})
    for model in ("gpt-6-sol", "o3", "chatgpt-4o-latest"):
        body = openai_chat.encode(_request([], model=model))
        assert body["max_completion_tokens"] == 9
        assert "max_tokens" not in body
    assert "tools" not in openai_chat.encode(_request([], tools=[]))
    assert "system" not in anthropic.encode(_request([], system=" "))


def test_anthropic_gets_one_cache_breakpoint_at_the_end_and_the_callers_own() -> None:
    hello = {"type": "text", "text": "hello"}
    sent = anthropic.encode(_request([{"role": "user", "content": [hello, hello]}]))["messages"]
    assert ["cache_control" in block for block in sent[0]["content"]] == [False, True]
    own = {**hello, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert anthropic.encode(_request([{"role": "user", "content": [own, hello]}]))["messages"][0]["content"] == [
        own,
        hello,
    ]
    assert "cache_control" not in hello


def test_anthropic_gets_nothing_that_it_refuses() -> None:
    signed = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": " \n"}]},
        {"role": "assistant", "content": [signed]},
    ]
    sent = anthropic.encode(_request(messages))["messages"]
    assert [message["content"][0]["type"] for message in sent] == ["text", "thinking"]
    assert sent[1]["content"] == [signed]


def test_openai_gets_results_as_text_and_images_as_data_urls() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}, picture]}
    empty = {"type": "tool_result", "tool_use_id": "u"}
    body = openai_chat.encode(_request([{"role": "user", "content": [picture, result, empty]}]))
    assert [message.get("content") for message in body["messages"][1:3]] == ["a\n[image]", ""]
    assert body["messages"][3]["content"] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]


def _events(*frames: Any) -> list[str]:
    return [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]


async def _stream(events: Iterable[str]) -> AsyncIterator[str]:
    for event in events:
        yield event


def _anthropic(*middle: Any, usage: Any = None, stop: str | None = "end_turn", final: Any = None) -> list[str]:
    return _events(
        {"type": "message_start", "message": {"model": "claude", "usage": usage or {"input_tokens": 3}}},
        *middle,
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": final or {"output_tokens": 5}},
        {"type": "message_stop"},
    )


def _block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[Any]:
    start = {"type": "content_block_start", "index": index, "content_block": block}
    middle = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [start, *middle, {"type": "content_block_stop", "index": index}]


async def test_anthropic_thinking_text_and_calls() -> None:
    shown: list[str] = []

    async def on_delta(text: str) -> None:
        shown.append(text)

    events = _anthropic(
        *_block(0, {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Let "}, {"type": "thinking_delta", "thinking": "me"},
                {"type": "signature_delta", "signature": "sig=="}),
        *_block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "a\ud83d"},
                {"type": "text_delta", "text": "\ude80\x00"}),
        {"type": "ping"}, {"type": "something_new", "x": 1},
        *_block(2, {"type": "tool_use", "id": "t1", "name": "shell", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"comm'},
                {"type": "input_json_delta", "partial_json": 'and": "ls"}'}),
        *_block(3, {"type": "tool_use", "id": "t2", "name": "now", "input": {}}),
        stop="tool_use",
    )  # fmt: skip
    reply = await anthropic.decode(_stream(events), on_delta)
    assert reply.content == [
        {"type": "thinking", "thinking": "Let me", "signature": "sig=="},
        {"type": "text", "text": "a\U0001f680\ufffd"},
        {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "t2", "name": "now", "input": {}},
    ]
    assert (reply.stop, reply.model, shown) == ("tool_use", "claude", ["a", "\U0001f680\ufffd"])


@pytest.mark.parametrize(
    ("start", "final", "usage"),
    [
        ({"input_tokens": 3, "cache_creation_input_tokens": 12304, "cache_read_input_tokens": 0, "output_tokens": 1},
         {"output_tokens": 550}, Usage(input=3, cache_write=12304, output=550)),
        ({"input_tokens": 9, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 7,
          "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20}},
         {"output_tokens": 4}, Usage(input=9, cache_read=7, cache_write=10, cache_write_1h=20, output=4)),
        ({"input_tokens": 1}, {"input_tokens": 8, "output_tokens": 4, "cache_read_input_tokens": None},
         Usage(input=8, output=4)),
        ({"input_tokens": 3, "output_tokens": 1}, {"thinking_tokens": 3}, None),
        ({"output_tokens": 1}, {"output_tokens": 4}, None),
        ({"input_tokens": -3}, {"output_tokens": 4}, None),
        ({"input_tokens": "3"}, {"output_tokens": 4}, None),
    ],
)  # fmt: skip
async def test_anthropic_usage(start: Any, final: Any, usage: Usage | None) -> None:
    assert (await anthropic.decode(_stream(_anthropic(usage=start, final=final)))).usage == usage


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("end_turn", "end_turn"), ("stop_sequence", "end_turn"), ("pause_turn", "end_turn"), ("max_tokens", "max_tokens"),
     ("refusal", "refusal"), ("model_context_window_exceeded", "context"), ("tool_use", "end_turn"),
     ("new", "end_turn")],
)  # fmt: skip
async def test_anthropic_stop_reasons(reason: str, stop: str) -> None:
    assert (await anthropic.decode(_stream(_anthropic(stop=reason)))).stop == stop


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"model": "gpt", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def _part(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **{key: more.pop(key) for key in ("name",) if key in more}}
    return {"index": index, "function": function, **more}


async def test_openai_text_and_calls() -> None:
    events = _events(
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"content": "a\ud83d"}),
        _chunk({"content": "\ude80"}),
        _chunk({"tool_calls": [_part(1, "", id="c2", name="now")]}),
        _chunk({"tool_calls": [_part(0, '{"command"', id="c1", name="shell")]}),
        _chunk({"tool_calls": [_part(0, ': "ls"}')]}),
        _chunk({}, "tool_calls"),
        "[DONE]",
    )
    reply = await openai_chat.decode(_stream(events))
    assert reply.content == [
        {"type": "text", "text": "a\U0001f680"},
        {"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
    ]
    assert (reply.stop, reply.model, reply.usage) == ("tool_use", "gpt", None)


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"prompt_tokens": 17111, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 17102}},
         Usage(input=9, cache_read=17102, output=100)),
        ({"prompt_tokens": 12307, "completion_tokens": 550,
          "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 12304}},
         Usage(input=3, cache_write=12304, output=550)),
        ({"prompt_tokens": 7, "completion_tokens": 0, "prompt_tokens_details": None}, Usage(input=7)),
        ({"prompt_tokens": 7}, None),
        ({"prompt_tokens": 7, "completion_tokens": 1.5}, None),
        (None, None),
    ],
)  # fmt: skip
async def test_openai_usage(reported: Any, usage: Usage | None) -> None:
    events = _events(_chunk({"content": "a"}, "stop"), {"choices": [], "usage": reported}, "[DONE]")
    assert (await openai_chat.decode(_stream(events))).usage == usage


@pytest.mark.parametrize(
    ("delta", "reason", "stop"),
    [
        ({}, "stop", "end_turn"),
        ({}, "length", "max_tokens"),
        ({}, "content_filter", "refusal"),
        ({"refusal": "I cannot."}, "stop", "refusal"),
        ({"tool_calls": [_part(0, "{}", id="c", name="n")]}, "stop", "tool_use"),
        ({}, "tool_calls", "end_turn"),
    ],
)
async def test_openai_stop_reasons(delta: dict[str, Any], reason: str, stop: str) -> None:
    assert (await openai_chat.decode(_stream(_events(_chunk(delta), _chunk({}, reason))))).stop == stop


_WHOLE = {
    "anthropic": _anthropic(
        *_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hello"}),
        *_block(1, {"type": "tool_use", "id": "t", "name": "n", "input": {}}, {"type": "input_json_delta",
                                                                             "partial_json": "{}"}),
        stop="tool_use",
    ),
    "openai": _events(
        _chunk({"content": "hello"}),
        _chunk({"tool_calls": [_part(0, "{}", id="c", name="n")]}),
        _chunk({}, "tool_calls"),
    ),
}  # fmt: skip
_DECODE = {"anthropic": anthropic.decode, "openai": openai_chat.decode}
_BAD = ["{", "[]", "3", "null", '"x"', '{"type": "message_start"}', '{"choices": 3}', '{"choices": [3]}',
        '{"type": "content_block_delta", "index": 9, "delta": {"type": "signature_delta", "signature": "s"}}',
        '{"choices": [{"delta": {"content": 3}}]}', '{"choices": [{"delta": {"tool_calls": [{"function": 1}]}}]}',
        '{"type": NaN}', "[" * 100_000]  # fmt: skip


async def test_a_stream_that_ends_early_is_an_unknown_outcome(dialect: str) -> None:
    whole = _WHOLE[dialect]
    assert (await _DECODE[dialect](_stream(whole), None)).stop == "tool_use"
    for length in range(len(whole)):
        with pytest.raises(Uncertain, match="ended before"):
            await _DECODE[dialect](_stream(whole[:length]), None)


@pytest.mark.parametrize("frame", _BAD)
async def test_a_malformed_frame_is_an_unknown_outcome_or_ignored(dialect: str, frame: str) -> None:
    """What one wire cannot read the other may ignore as unknown; nothing but Uncertain ever escapes."""
    whole = _WHOLE[dialect]
    own_shape = ("choices" in frame) == (dialect == "openai") or not frame.startswith('{"')
    try:
        reply = await _DECODE[dialect](_stream([*whole[:1], frame, *whole[1:]]), None)
    except Uncertain as error:
        assert "malformed" in str(error)
    else:
        assert not own_shape
        assert reply.stop == "tool_use"


async def test_an_error_after_200_is_an_unknown_outcome(dialect: str) -> None:
    frame = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    with pytest.raises(Uncertain, match="Overloaded") as caught:
        await _DECODE[dialect](_stream([*_WHOLE[dialect][:2], frame]), None)
    assert (caught.value.status, caught.value.type, caught.value.billed) == (200, "overloaded_error", True)


async def test_a_stream_without_a_stop_reason_is_an_unknown_outcome() -> None:
    with pytest.raises(Uncertain, match="stop reason"):
        await anthropic.decode(_stream(_anthropic(stop=None)))


async def test_what_shows_the_text_may_fail_with_its_own_error(dialect: str) -> None:
    async def broken(text: str) -> None:
        raise KeyError("the screen")

    with pytest.raises(KeyError, match="the screen"):
        await _DECODE[dialect](_stream(_WHOLE[dialect]), broken)
