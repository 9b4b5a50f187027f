"""OpenAI Chat Completions, as the service writes it. `prompt_tokens` includes cached tokens."""

import json
from typing import Any

from corral.gateway import script
from corral.gateway.call import Tool, Usage

from .wires import BAD_ARGUMENTS, ERROR_TYPES, Answer

_CACHED_FROM = 1024
"""Tokens of a prompt that the service caches of itself."""

_STOPS = {"max_tokens": "length", "refusal": "content_filter", "context": "length"}


def scene(body: dict[str, Any]) -> script.Scene:
    """Tool results are messages of their own; those that follow one another are one step."""
    prompt, step, result, previous = "", 0, "", ""
    for message in body.get("messages") or []:
        role, text = message.get("role"), script.text_of(message.get("content"))
        if role == "tool":
            step += previous != "tool"
            result = text
        elif role == "user" and text.strip():
            prompt, step = text, 0
        previous = role
    tools = []
    for tool in body.get("tools") or []:
        function = tool.get("function") or {}
        tools.append(Tool(function["name"], function.get("description") or "", function.get("parameters") or {}))
    return script.Scene(prompt, step, result, tools)


def blocks(body: dict[str, Any]) -> list[Any]:
    """Tools, then each message."""
    return [body.get("tools") or [], *(body.get("messages") or [])]


def cached_blocks(body: dict[str, Any]) -> int:
    """All of a long prompt, none of a short one."""
    parts = blocks(body)
    return len(parts) if sum(map(script.tokens, parts)) >= _CACHED_FROM else 0


def whole(answer: Answer) -> dict[str, Any]:
    """A `chat.completion`."""
    planned = answer.planned
    message: dict[str, Any] = {"role": "assistant", "content": planned.text or None, "refusal": None}
    if planned.calls:
        message["tool_calls"] = [_tool_call(call, json.dumps(call.input)) for call in planned.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
    body = {**_base(answer, "chat.completion"), "choices": [choice]}
    return body if answer.usage is None else {**body, "usage": _usage(answer.usage)}


def events(answer: Answer, body: dict[str, Any]) -> list[str]:
    """Chunks, the usage when the request asks for it, and `[DONE]`."""
    base = _base(answer, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**base, "choices": [choice]})

    out = [chunk({"role": "assistant", "content": ""})]
    if answer.planned.text:
        out += [chunk({"content": piece}) for piece in script.pieces(answer.planned.text)]
    for i, call in enumerate(answer.planned.calls):
        out.append(chunk({"tool_calls": [{"index": i, **_tool_call(call, "")}]}))
        text = BAD_ARGUMENTS if answer.bad_arguments and i == 0 else json.dumps(call.input)
        for piece in script.pieces(text):
            out.append(chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]}))
    out.append(chunk({}, _finish_reason(answer)))
    if (body.get("stream_options") or {}).get("include_usage") and answer.usage is not None:
        out.append(_event({**base, "choices": [], "usage": _usage(answer.usage)}))
    return [*out, "data: [DONE]\n\n"]


def error(status: int, message: str) -> dict[str, Any]:
    """An `error`."""
    kind = ERROR_TYPES.get(status, "api_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _base(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": 1767225600, "model": answer.model}


def _tool_call(call: script.Call, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{call.id}", "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _finish_reason(answer: Answer) -> str:
    return "tool_calls" if answer.planned.calls else _STOPS.get(answer.planned.stop, "stop")


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
