"""OpenAI Chat Completions, streaming: https://platform.openai.com/docs/api-reference/chat-streaming.

Also what most self-hosted model servers speak. A tool result is a message of its own here, and `prompt_tokens` includes
the cached tokens, which are counted apart in our Usage.
"""

import json
import re
from collections.abc import AsyncIterable
from typing import Any

from .. import frames
from ..call import Block, Message, OnDelta, Reply, Request, Uncertain, Usage

PATH = "/chat/completions"
"""After the `/v1` of the base URL."""

# OpenAI's newer models refuse `max_tokens`; many other servers know only that.
_OPENAI_MODEL = re.compile(r"(ft:)?(gpt-|chatgpt-|codex|o\d)")
_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def headers(api_key: str) -> dict[str, str]:
    """Authorisation."""
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def encode(request: Request) -> dict[str, Any]:
    """The JSON body of a streaming call. Thinking blocks are left out: this wire cannot carry them."""
    messages = [{"role": "system", "content": request.system}] if request.system.strip() else []
    for message in request.messages:
        messages += _messages(message)
    limit = "max_completion_tokens" if _OPENAI_MODEL.match(request.model) else "max_tokens"
    body: dict[str, Any] = {
        "model": request.model,
        "messages": messages,
        limit: request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
            for t in request.tools
        ]
    return body


async def decode(events: AsyncIterable[str], on_delta: OnDelta | None = None) -> Reply:
    """The reply that a stream of chunks tells. Reads no further than `[DONE]`.

    A server may leave `[DONE]` out: a stream that ends in order after a finish reason is complete, too. Tool arguments
    that are no JSON object become `{"_malformed": text}`. Raises Uncertain when the stream ends early, reports an error
    or has a frame that cannot be read.
    """
    folded = _Folded()
    async for data in events:
        if data.strip() == "[DONE]":
            break
        with frames.reading():
            text = folded.add(frames.parse(data))
        if text and on_delta:
            await on_delta(text)
    with frames.reading():
        return folded.reply()


class _Folded:
    """The chunks so far."""

    def __init__(self) -> None:
        self._text = frames.TextStream()
        self._calls: dict[int, _Call] = {}
        self._usage: dict[str, Any] | None = None
        self._stop: str | None = None
        self._refused = False
        self._model = ""

    def add(self, frame: dict[str, Any]) -> str:
        """Take one chunk; returns the text it adds to the answer."""
        if error := frame.get("error"):
            message, kind = (error.get("message"), error.get("type")) if isinstance(error, dict) else (error, "")
            raise Uncertain(str(message or "error"), status=200, type=str(kind or ""))
        self._model = frame.get("model") or self._model
        self._usage = frame.get("usage") or self._usage
        shown = ""
        for choice in frame.get("choices") or []:
            delta = choice.get("delta") or {}
            shown += self._text.add(delta.get("content") or "")
            if delta.get("refusal"):
                self._refused = True
                shown += self._text.add(delta["refusal"])
            for part in delta.get("tool_calls") or []:
                self._calls.setdefault(part.get("index", 0), _Call()).add(part)
            self._stop = choice.get("finish_reason") or self._stop
        return shown

    def reply(self) -> Reply:
        """What all chunks together say."""
        if self._stop is None:
            raise Uncertain("the stream ended before a finish reason", status=200)
        text = str(self._text)
        content: list[Block] = [{"type": "text", "text": text}] if text else []
        content += [self._calls[index].block() for index in sorted(self._calls)]
        stop = "refusal" if self._refused else _STOPS.get(self._stop, "end_turn")
        return Reply(
            content=content,
            stop=frames.settled_stop(stop, content),
            usage=_counters(self._usage),
            model=frames.clean(str(self._model)),
        )


class _Call:
    """One tool call, whose id and name come first and whose arguments come in pieces."""

    def __init__(self) -> None:
        self._id = self._name = ""
        self._arguments = frames.TextStream()

    def add(self, part: dict[str, Any]) -> None:
        """Take one piece."""
        function = part.get("function") or {}
        self._id = part.get("id") or self._id
        self._name = function.get("name") or self._name
        self._arguments.add(function.get("arguments") or "")

    def block(self) -> Block:
        """The whole call. Raises ValueError when it has no id or name."""
        if not (self._id and self._name):
            raise ValueError("a tool call has no id or name")
        arguments = frames.tool_input(str(self._arguments))
        return {"type": "tool_use", "id": frames.clean(self._id), "name": frames.clean(self._name), "input": arguments}


def _counters(usage: dict[str, Any] | None) -> Usage | None:
    """None when the service reported nothing usable."""
    if not usage or "prompt_tokens" not in usage or "completion_tokens" not in usage:
        return None
    try:
        details = usage.get("prompt_tokens_details") or {}
        read, written = frames.counter(details.get("cached_tokens")), frames.counter(details.get("cache_write_tokens"))
        return Usage(
            input=max(0, frames.counter(usage["prompt_tokens"]) - read - written),
            cache_read=read,
            cache_write=written,
            output=frames.counter(usage["completion_tokens"]),
        )
    except (ValueError, AttributeError):
        return None


def _messages(message: Message) -> list[dict[str, Any]]:
    """Tool results first, each as a message of its own: they must follow directly on the calls they answer."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    out: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _text(block.get("content"))}
        for block in blocks
        if block["type"] == "tool_result"
    ]
    calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
    parts = [part for block in blocks if (part := _part(block))]
    said: Any = parts if any(part["type"] != "text" for part in parts) else "\n".join(part["text"] for part in parts)
    if calls:
        out.append({"role": "assistant", "content": said or None, "tool_calls": calls})
    elif said:
        out.append({"role": message["role"], "content": said})
    return out


def _call(block: Block) -> dict[str, Any]:
    arguments = json.dumps(block["input"], ensure_ascii=False)
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _part(block: Block) -> dict[str, Any] | None:
    if block["type"] == "text" and block["text"]:
        return {"type": "text", "text": block["text"]}
    if block["type"] == "image" and block["source"]["type"] == "base64":
        url = f"data:{block['source']['media_type']};base64,{block['source']['data']}"
        return {"type": "image_url", "image_url": {"url": url}}
    return None


def _text(content: Any) -> str:
    """A tool result as one string; what is not text is named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(block["text"] if block["type"] == "text" else f"[{block['type']}]" for block in content)
