"""The arithmetic of cost, and the bound on it."""

import json
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.base.money import usd
from corral.gateway import http
from corral.gateway.call import Message, Price, Request, Tool, Usage, largest
from corral.gateway.dialects import anthropic, openai_chat

SONNET = Price(input=3000, output=15000, cache_read=300, cache_write=3750, cache_write_1h=6000)

_WIRE_KEYS = (
    *("type", "role", "content", "text", "id", "name", "input", "tool_use_id", "tool_call_id", "cache_control"),
    *("description", "input_schema", "function", "arguments", "parameters", "tool_calls"),
)

_TEXT = st.text(st.characters(codec=None), max_size=40)
_BLOCK = st.one_of(
    _TEXT.map(lambda text: {"type": "text", "text": text}),
    st.dictionaries(_TEXT, _TEXT, max_size=2).map(lambda i: {"type": "tool_use", "id": "t", "name": "n", "input": i}),
    _TEXT.map(lambda text: {"type": "tool_result", "tool_use_id": "t", "content": text}),
)
_MESSAGE = st.builds(
    lambda role, blocks: {"role": role, "content": blocks},
    st.sampled_from(["user", "assistant"]),
    st.lists(_BLOCK, max_size=4),
)
_TOOL = st.builds(Tool, _TEXT, _TEXT, st.dictionaries(_TEXT, _TEXT, max_size=2))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(input=3, output=550, cache_write=12304), "0.054399"),
        (Usage(input=9, output=100, cache_read=17102), "0.0066576"),
        (Usage(cache_write_1h=1000), "0.006"),
        (Usage(), "0.00"),
    ],
)
def test_cost_is_exact(usage: Usage, cost: str) -> None:
    assert usd(SONNET.cost(usage)) == cost


@given(st.builds(Usage, *[st.integers(0, 10**7)] * 5))
def test_cost_is_the_decimal_sum(usage: Usage) -> None:
    parts = zip(asdict(usage).values(), ("3", "0.30", "3.75", "6", "15"), strict=True)
    assert Decimal(SONNET.cost(usage)) / 10**9 == sum(tokens * Decimal(price) / 10**6 for tokens, price in parts)


def test_a_long_prompt_pays_its_tier_for_all_of_its_tokens() -> None:
    price = Price(10, 20, 1, 12, 20, tiers=((100, 30, 40, 3, 36, 60), (200, 50, 60, 5, 60, 100)))
    assert price.cost(Usage(input=40, cache_read=60, output=1)) == 40 * 10 + 60 + 20
    assert price.cost(Usage(input=41, cache_read=60, output=1)) == 41 * 30 + 60 * 3 + 40
    assert price.cost(Usage(input=201)) == 201 * 50
    again = Price(**json.loads(json.dumps(asdict(price))))
    assert again.cost(Usage(input=201, output=3)) == price.cost(Usage(input=201, output=3))


@given(_TEXT, st.lists(_MESSAGE, max_size=5), st.lists(_TOOL, max_size=3))
def test_no_prompt_has_more_tokens_than_the_bound(system: str, messages: list[Message], tools: list[Tool]) -> None:
    request = Request("m", system, messages, tools, 10)
    _, bound = largest(request, SONNET)
    for dialect in (anthropic, openai_chat):
        body = json.loads(http.encoded(dialect.encode(request)))
        # The worst tokenizer: one token for each byte of all that the model reads, and some around each message.
        worst = sum(map(_bytes_read, (body["messages"], body.get("system"), body.get("tools"))))
        assert bound >= worst + 16 * len(messages)


@given(st.lists(_MESSAGE, max_size=5), st.lists(_MESSAGE, max_size=5))
def test_the_bound_from_a_measured_prefix_covers_what_was_appended(old: list[Message], new: list[Message]) -> None:
    measured = 50
    _, bound = largest(Request("m", "", old + new, [], 10), SONNET, (len(old), measured))
    appended = json.loads(http.encoded(anthropic.encode(Request("m", "", new, [], 10))))["messages"]
    assert bound >= measured + _bytes_read(appended) + 16 * len(new)


def test_the_bound_takes_the_dearest_input_and_the_tier_it_can_reach() -> None:
    request = Request("m", "x" * 2000, [], [], 7)
    _, tokens = largest(request, SONNET)
    assert largest(request, SONNET) == (tokens * 6000 + 7 * 15000, tokens)
    tiered = Price(10, 20, 1, 12, 20, tiers=((2000, 30, 40, 3, 36, 60),))
    assert largest(request, tiered) == (tokens * 60 + 7 * 40, tokens)


def _bytes_read(value: Any) -> int:
    """UTF-8 bytes of all text in a JSON value, with the keys that are not the wire's own."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, list):
        return sum(map(_bytes_read, value))
    if isinstance(value, dict):
        own = [key for key in value if key in _WIRE_KEYS]
        return sum(len(key.encode()) for key in value if key not in own) + sum(
            _bytes_read(item) for key, item in value.items() if key not in ("type", "role", "cache_control")
        )
    return 0
