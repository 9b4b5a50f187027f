"""Anthropic Messages, as the service writes it. `input_tokens` excludes cached tokens."""

import json
from typing import Any

from corral.gateway import script
from corral.gateway.call import Tool, Usage

from .wires import BAD_ARGUMENTS, ERROR_TYPES, Answer

_BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_STOPS = {"context": "model_context_window_exceeded"}


def scene(body: dict[str, Any]) -> script.Scene:
    """The messages are in the canonical form already; a tool of type `bash_...` has no schema of its own."""
    tools = []
    for tool in body.get("tools") or []:
        schema = _BASH if str(tool.get("type", "")).startswith("bash") else tool.get("input_schema") or {}
        tools.append(Tool(tool["name"], tool.get("description") or "", schema))
    return script.scene(body.get("messages") or [], tools)


def blocks(body: dict[str, Any]) -> list[Any]:
    """Tools, system prompt, then each message: the order in which the service caches."""
    return [body.get("tools") or [], body.get("system") or "", *(body.get("messages") or [])]


def cached_blocks(body: dict[str, Any]) -> int:
    """Up to the last block that carries `cache_control`."""
    parts = blocks(body)
    if body.get("cache_control"):
        return len(parts)
    return max((i + 1 for i, part in enumerate(parts) if '"cache_control"' in json.dumps(part)), default=0)


def whole(answer: Answer) -> dict[str, Any]:
    """A `message`."""
    planned = answer.planned
    content: list[dict[str, Any]] = []
    if planned.text or not planned.calls:
        content.append({"type": "text", "text": planned.text})
    content += [_tool_use(call, call.input) for call in planned.calls]
    message = _message(answer, content) | {"stop_reason": _stop_reason(answer)}
    return message if answer.usage is None else {**message, "usage": _usage(answer.usage)}


def events(answer: Answer, body: dict[str, Any]) -> list[str]:
    """`message_start` to `message_stop`."""
    planned, usage = answer.planned, answer.usage
    start = _message(answer, [])
    if usage is not None:
        start["usage"] = {**_usage(usage), "output_tokens": 1}
    out = [_event("message_start", {"message": start})]
    index = 0
    if planned.text or not planned.calls:
        deltas = [{"type": "text_delta", "text": piece} for piece in script.pieces(planned.text)]
        out += _block(index, {"type": "text", "text": ""}, deltas)
        out.insert(2, _event("ping", {}))
        index += 1
    for i, call in enumerate(planned.calls):
        text = BAD_ARGUMENTS if answer.bad_arguments and i == 0 else json.dumps(call.input)
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in script.pieces(text)]
        out += _block(index + i, _tool_use(call, {}), deltas)
    end: dict[str, Any] = {"delta": {"stop_reason": _stop_reason(answer), "stop_sequence": None}}
    if usage is not None:
        end["usage"] = {"output_tokens": usage.output}
    return [*out, _event("message_delta", end), _event("message_stop", {})]


def error(status: int, message: str) -> dict[str, Any]:
    """An `error`."""
    kind = ERROR_TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


def _block(index: int, empty: dict[str, Any], deltas: list[dict[str, Any]]) -> list[str]:
    start = _event("content_block_start", {"index": index, "content_block": empty})
    middle = [_event("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
    return [start, *middle, _event("content_block_stop", {"index": index})]


def _message(answer: Answer, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _tool_use(call: script.Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": arguments}


def _stop_reason(answer: Answer) -> str:
    stop = answer.planned.stop
    return "tool_use" if answer.planned.calls else _STOPS.get(stop, stop)


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write + usage.cache_write_1h,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "service_tier": "standard",
    }
