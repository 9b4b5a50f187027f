"""The snapshot's prices as whole nano-USD for one token."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import data_snapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Provider, Tier, TieredPrices
from hypothesis import given
from hypothesis import strategies as st

from corral.gateway import prices
from corral.gateway.call import Price, Request, Usage, largest

_SNAPSHOT = data_snapshot.get_snapshot()
_KNOWN = sorted(
    (provider.id, model.id)
    for provider in _SNAPSHOT.providers
    if provider.id in ("anthropic", "openai")
    for model in provider.models
    if prices.find(provider.id, model.id)
)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("anthropic/claude-sonnet-5-5", Price(2000, 10000, 100, 2500, 4000)),
        ("anthropic/claude-haiku-5-5",
         Price(100, 500, 10, 125, 200, tiers=((100_000, 500, 2500, 50, 625, 1000),))),
        ("anthropic/claude-sonnet-4-5-20250929",
         Price(3000, 15000, 300, 3750, 6000, tiers=((200_000, 6000, 22500, 600, 7500, 12000),))),
        ("openai/gpt-4.1-mini", Price(400, 1600, 100, 400, 400)),
        ("openai/gpt-6-sol", Price(2000, 10000, 200, 2500, 2500, tiers=((272_000, 4000, 15000, 400, 5000, 5000),))),
    ],
)  # fmt: skip
def test_listed_prices(model: str, price: Price) -> None:
    provider, name = model.split("/")
    assert prices.find(provider, name) == price


@pytest.mark.parametrize(
    "model", ["anthropic/nope", "openai/claude-sonnet-5-5", "openai/whisper-1", "nobody/gpt-4.1-mini", "local/x.gguf"]
)
def test_what_is_not_listed_has_no_price(model: str) -> None:
    provider, name = model.split("/", 1)
    assert prices.find(provider, name) is None


def test_a_price_is_the_one_of_the_day() -> None:
    before, after = datetime(2025, 6, 9, tzinfo=UTC), datetime(2025, 6, 11, tzinfo=UTC)
    assert prices.find("openai", "o3", now=lambda: before) == Price(10000, 40000, 500, 10000, 10000)
    assert prices.find("openai", "o3", now=lambda: after) == Price(2000, 8000, 500, 2000, 2000)


@pytest.fixture
def listing() -> Iterator[Callable[[str, ModelPrice], None]]:
    """Make a snapshot whose only model is `x` at this price."""

    def listed(provider: str, price: ModelPrice) -> None:
        model = ModelInfo(id="x", match=ClauseEquals("x"), prices=price)
        providers = [Provider(id=provider, name=provider, api_pattern="", models=[model])]
        data_snapshot.set_custom_snapshot(data_snapshot.DataSnapshot(providers, from_auto_update=False))

    yield listed
    data_snapshot.set_custom_snapshot(None)


def test_fractions_round_up_and_what_is_not_listed_is_not_cheap(listing: Callable[[str, ModelPrice], None]) -> None:
    price = ModelPrice(input_mtok=Decimal("0.0375"), output_mtok=Decimal("0.0001"))
    listing("openai", price)
    assert prices.find("openai", "x") == Price(38, 1, 38, 38, 38)
    listing("anthropic", price)
    assert prices.find("anthropic", "x") == Price(38, 1, 38, 47, 75)


def test_tiers_of_several_counters_are_merged_and_never_fall(listing: Callable[[str, ModelPrice], None]) -> None:
    per_input = TieredPrices(
        base=Decimal(1), tiers=[Tier(start=200, price=Decimal(3)), Tier(start=100, price=Decimal(2))]
    )
    per_output = TieredPrices(base=Decimal(9), tiers=[Tier(start=150, price=Decimal(5))])
    listing("openai", ModelPrice(input_mtok=per_input, output_mtok=per_output))
    assert prices.find("openai", "x") == Price(
        1000, 9000, 1000, 1000, 1000,
        tiers=(
            (100, 2000, 9000, 2000, 2000, 2000),
            (150, 2000, 9000, 2000, 2000, 2000),
            (200, 3000, 9000, 3000, 3000, 3000),
        ),
    )  # fmt: skip


def test_there_are_many_models() -> None:
    assert len(_KNOWN) > 80


@given(st.sampled_from(_KNOWN), st.integers(0, 400_000), st.integers(0, 400_000), st.integers(0, 50_000))
def test_a_cost_is_never_below_the_exact_one_and_hardly_above(
    model: tuple[str, str], new: int, read: int, out: int
) -> None:
    price = prices.find(*model)
    assert price is not None
    _, info = _SNAPSHOT.find_provider_model(model[1], None, model[0], None)
    listed = info.get_prices(datetime.now(UTC))
    exact = Decimal(0)
    for key, tokens in (("input_mtok", new), ("cache_read_mtok", read), ("output_mtok", out)):
        value: Any = getattr(listed, key) or listed.input_mtok
        reached: list[Any] = [tier.price for tier in getattr(value, "tiers", ()) if new + read > tier.start]
        usd_per_mtok = Decimal(reached[-1] if reached else getattr(value, "base", value))
        exact += tokens * usd_per_mtok * 1000
    cost = price.cost(Usage(input=new, cache_read=read, output=out))
    assert exact <= cost <= exact + new + read + out


@given(st.sampled_from(_KNOWN), st.integers(0, 300_000))
def test_the_largest_cost_grows_with_the_prompt(model: tuple[str, str], size: int) -> None:
    price = prices.find(*model)
    assert price is not None
    smaller, _ = largest(Request("m", "x" * size, [], [], 100), price)
    larger, _ = largest(Request("m", "x" * (size + 1000), [], [], 100), price)
    assert smaller < larger
