"""One model call: the request, the reply, and every way it can fail, told apart by what is known of it.

The canonical form of a conversation is Anthropic's Messages blocks (text, tool_use, tool_result, thinking), because it
is the superset; dialects translate. Hidden retries are forbidden: a provider sends a request once, and only it knows
whether bytes were sent.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Block = dict[str, Any]
Message = dict[str, Any]
"""`{"role": "user" | "assistant", "content": [Block, ...]}`."""
OnDelta = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Tool:
    """A tool as the model sees it; `schema` is a JSON schema of its input."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Request:
    """Everything a model is told in one call. `model` is the id as the provider writes it."""

    model: str
    system: str
    messages: list[Message]
    tools: list[Tool]
    max_tokens: int


@dataclass(frozen=True)
class Usage:
    """Tokens of a call in disjoint counters."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All input tokens, cached ones included."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h


@dataclass(frozen=True)
class Price:
    """Nano-USD for one token of each counter of Usage."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    tiers: Sequence[Sequence[int]] = ()
    """Prices of long prompts: rows of (prompt tokens, then the five prices above in their order), rising.

    A prompt of more tokens than a row says pays that row's prices for all of its tokens. Plain numbers, so that a price
    survives JSON.
    """

    def at(self, prompt: int) -> "Price":
        """The prices of a call whose prompt has so many tokens, cached ones included."""
        price = self
        for over, *row in self.tiers:
            if prompt > over:
                per_input, per_output, read, write, write_1h = row
                price = Price(per_input, per_output, read, write, write_1h)
        return price

    def cost(self, usage: Usage) -> int:
        """What a call with this usage costs, in nano-USD."""
        price = self.at(usage.prompt)
        return (
            usage.input * price.input
            + usage.cache_read * price.cache_read
            + usage.cache_write * price.cache_write
            + usage.cache_write_1h * price.cache_write_1h
            + usage.output * price.output
        )


FREE = Price(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Reply:
    """A complete answer. `stop` is end_turn, tool_use, max_tokens, refusal or context."""

    content: list[Block]
    stop: str
    usage: Usage | None
    """None when the provider reported none: the call is then charged at its reservation."""
    model: str
    request_id: str = ""


class CallError(Exception):
    """A model call that brought no reply. `billed`: it may have cost something."""

    kind = "Failed"
    retryable = False
    billed = False

    def __init__(
        self, message: str, *, status: int | None = None, type: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.type, self.retry_after = status, type, retry_after


class NotSent(CallError):
    """No byte of the request was accepted (name lookup, connect, TLS)."""

    kind, retryable = "NotSent", True


class Overloaded(CallError):
    """429, 529, or 500/503 with the provider's own error body: it did no work."""

    kind, retryable = "Overloaded", True


class Rejected(CallError):
    """The request itself is refused (400, 401, 403, 404, 413, 422)."""

    kind = "Rejected"


class Uncertain(CallError):
    """Sent, and no complete answer came back: it may have been billed."""

    kind, billed = "Uncertain", True


class Provider(Protocol):
    """Calls the models of one service. A module in `providers/` has `create_provider(settings) -> Provider`."""

    name: str

    async def call(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """Send the request once. Raises a CallError; asyncio cancellation closes the connection."""
        ...

    def price(self, model: str) -> Price | None:
        """The price now, or None when it is not known."""
        ...

    async def aclose(self) -> None:
        """Close connections and end worker processes."""
        ...


@dataclass(frozen=True)
class ProviderSettings:
    """What serve tells a provider."""

    api_key: str = ""
    base_url: str = ""
    """Empty: the service's own address."""
    home: str = ""
    """$CORRAL_HOME, for providers that keep files."""
    read_timeout: float = 600.0
    """Seconds without a byte from the service before a call counts as Uncertain."""
    options: dict[str, str] = field(default_factory=dict)


def largest(request: Request, price: Price, measured: tuple[int, int] | None = None) -> tuple[int, int]:
    """The most that a call can cost: (nano-USD, input tokens).

    A byte-level tokenizer never makes more tokens than there are UTF-8 bytes; 1,024 are added for the tool preamble and
    16 for each message. `measured` = (messages, tokens) of the previous call with the same model, system and tools:
    what the provider counted as prompt + output for that many messages, so only what was appended is bounded by its
    bytes.
    """
    known, tokens = measured or (0, 0)
    new = request.messages[known:]
    tokens += _size(new) + 16 * len(new)
    if measured is None:
        tools = [[t.name, t.description, t.schema] for t in request.tools]
        tokens += _size([request.system, tools]) + 1024
    price = price.at(tokens)
    per_input = max(price.input, price.cache_write, price.cache_write_1h, price.cache_read)
    return tokens * per_input + request.max_tokens * price.output, tokens


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
