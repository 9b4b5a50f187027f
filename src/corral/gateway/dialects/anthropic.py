"""Anthropic Messages, streaming: https://docs.anthropic.com/en/api/messages-streaming.

The canonical form of a conversation is this service's own, so requests pass almost unchanged. Two cache breakpoints are
set (after the system prompt, and at the end of the conversation), because an agent sends the same prefix at each step.
"""

from collections.abc import AsyncIterable
from typing import Any

from .. import frames
from ..call import Block, Message, OnDelta, Reply, Request, Uncertain, Usage

PATH = "/messages"
"""After the `/v1` of the base URL."""

_CACHED = {"type": "ephemeral"}
_CACHEABLE = ("text", "tool_use", "tool_result", "image", "document")
_STOPS = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "model_context_window_exceeded": "context",
}


def headers(api_key: str) -> dict[str, str]:
    """Authorisation and the version of the protocol."""
    version = {"anthropic-version": "2023-06-01"}
    return {"x-api-key": api_key, **version} if api_key else version


def encode(request: Request) -> dict[str, Any]:
    """The JSON body of a streaming call.

    Left out is what the service refuses: blank text, thinking without a signature (another service's), and messages
    that are empty then.
    """
    messages = [message for message in map(_message, request.messages) if message["content"]]
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": _with_breakpoint(messages),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
    if request.tools:
        body["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.schema} for t in request.tools
        ]
    return body


async def decode(events: AsyncIterable[str], on_delta: OnDelta | None = None) -> Reply:
    """The reply that a stream of events tells. Reads no further than `message_stop`.

    Thinking keeps its signature. Tool arguments that are no JSON object become `{"_malformed": text}`. Raises Uncertain
    when the stream ends early, has an `error` event or a frame that cannot be read.
    """
    folded = _Folded()
    async for data in events:
        with frames.reading():
            text = folded.add(frames.parse(data))
        if text and on_delta:
            await on_delta(text)
        if folded.complete:
            with frames.reading():
                return folded.reply()
    raise Uncertain("the stream ended before message_stop", status=200)


class _Folded:
    """The events so far."""

    def __init__(self) -> None:
        self.complete = False
        self._blocks: dict[int, Block] = {}
        self._texts: dict[tuple[int, str], frames.TextStream] = {}
        self._usage: dict[str, Any] = {}
        self._final_usage = False
        self._stop: str | None = None
        self._model = ""

    def add(self, frame: dict[str, Any]) -> str:
        """Take one event; returns the text it adds to the answer. Unknown kinds are ignored, as the service asks."""
        match frame["type"]:
            case "message_start":
                self._model = str(frame["message"].get("model", ""))
                self._count(frame["message"].get("usage"))
            case "content_block_start":
                self._blocks[frame["index"]] = dict(frame["content_block"])
            case "content_block_delta":
                return self._delta(frame["index"], frame["delta"])
            case "message_delta":
                self._stop = frame["delta"].get("stop_reason") or self._stop
                self._count(frame.get("usage"))
                self._final_usage = "output_tokens" in (frame.get("usage") or {})
            case "message_stop":
                self.complete = True
            case "error":
                error = frame["error"]
                raise Uncertain(str(error.get("message", "error")), status=200, type=str(error.get("type", "")))
        return ""

    def reply(self) -> Reply:
        """What all events together say."""
        if self._stop is None:
            raise Uncertain("the stream has no stop reason", status=200)
        content = [block for index in sorted(self._blocks) if (block := self._finished(index))]
        stop = frames.settled_stop(_STOPS.get(self._stop, "end_turn"), content)
        return Reply(content=content, stop=stop, usage=self._counters(), model=frames.clean(self._model))

    def _delta(self, index: int, delta: dict[str, Any]) -> str:
        match delta["type"]:
            case "text_delta":
                return self._text(index, "text").add(delta["text"])
            case "thinking_delta":
                self._text(index, "thinking").add(delta["thinking"])
            case "input_json_delta":
                self._text(index, "input").add(delta["partial_json"])
            case "signature_delta":
                self._blocks[index]["signature"] = delta["signature"]
            case "citations_delta":
                self._blocks[index]["citations"] = [*(self._blocks[index].get("citations") or []), delta["citation"]]
        return ""

    def _text(self, index: int, key: str) -> frames.TextStream:
        if (index, key) not in self._texts:
            self._texts[index, key] = frames.TextStream()
            if key != "input" and (begun := self._blocks[index].get(key)):
                self._texts[index, key].add(begun)
        return self._texts[index, key]

    def _finished(self, index: int) -> Block | None:
        block: Block = frames.scrub(self._blocks[index])
        for key in ("text", "thinking"):
            if (index, key) in self._texts:
                block[key] = str(self._texts[index, key])
        if block["type"] == "tool_use" and (index, "input") in self._texts:
            block["input"] = frames.tool_input(str(self._texts[index, "input"]))
        if block["type"] == "tool_use" and not (block["id"] and block["name"] and isinstance(block["input"], dict)):
            raise ValueError("a tool call has no id, name or input")
        return None if block["type"] == "text" and not block.get("text") else block

    def _count(self, usage: dict[str, Any] | None) -> None:
        self._usage |= {key: value for key, value in (usage or {}).items() if value is not None}

    def _counters(self) -> Usage | None:
        """None unless the final count is there: the one at the start does not know the output."""
        if not self._final_usage or "input_tokens" not in self._usage:
            return None
        try:
            written = frames.counter(self._usage.get("cache_creation_input_tokens"))
            for_1h = frames.counter((self._usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens"))
            return Usage(
                input=frames.counter(self._usage["input_tokens"]),
                cache_read=frames.counter(self._usage.get("cache_read_input_tokens")),
                cache_write=max(0, written - for_1h),
                cache_write_1h=for_1h,
                output=frames.counter(self._usage["output_tokens"]),
            )
        except (ValueError, AttributeError):
            return None


def _message(message: Message) -> Message:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [block for block in blocks if _accepted(block)]}


def _accepted(block: Block) -> bool:
    match block["type"]:
        case "text":
            return bool(block["text"].strip())
        case "thinking":
            return bool(block.get("signature"))
    return True


def _with_breakpoint(messages: list[Message]) -> list[Message]:
    """The messages with a cache breakpoint at the last block, unless the caller has set breakpoints."""
    blocks = [block for message in messages for block in message["content"]]
    if not blocks or blocks[-1]["type"] not in _CACHEABLE or any("cache_control" in block for block in blocks):
        return messages
    last = messages[-1]
    marked = {**blocks[-1], "cache_control": _CACHED}
    return [*messages[:-1], {**last, "content": [*last["content"][:-1], marked]}]
