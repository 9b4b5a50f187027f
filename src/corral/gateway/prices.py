"""What models cost, from the snapshot that comes with genai-prices.

Never updated while the program runs: the price of a running run must not change under it. A newer snapshot is a newer
version of the package. Prices are whole nano-USD for one token; $1 for a million tokens is 1,000. A fraction of a
nano-dollar counts as one, so a cost is never too low.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal

from genai_prices import data_snapshot
from genai_prices.types import ModelPrice, TieredPrices

from .call import Price

_NANO_PER_MTOK = 1000
"""$1 for a million tokens in nano-USD for one token."""


def find(provider: str, model: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Price | None:
    """The listed price of a provider's model, or None when it is not known or not priced in text tokens.

    A price that depends on the length of the prompt has tiers, which `Price.cost` applies to what was really used and
    `largest` to what could be used. Not listed: cache reads cost as input; cache writes as input, or 1.25 times input
    at Anthropic; 1-hour writes twice the input at Anthropic, elsewhere as other writes.
    """
    try:
        _, info = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    listed = info.get_prices(now())
    if listed.input_mtok is None or listed.output_mtok is None:
        return None
    base = _row(listed, 0, provider)
    tiers: list[tuple[int, ...]] = []
    for start in _starts(listed):
        # Not below the row before: a longer prompt must never make the largest cost of a call smaller.
        previous = tiers[-1][1:] if tiers else base
        tiers.append((start, *map(max, _row(listed, start + 1, provider), previous)))
    return Price(*base, tiers=tuple(tiers))


def _row(listed: ModelPrice, prompt: int, provider: str) -> tuple[int, int, int, int, int]:
    """The five prices for a prompt of so many tokens, in the order of Price."""

    def usd(key: str, otherwise: Decimal) -> Decimal:
        value = getattr(listed, key)
        return otherwise if value is None else _at(value, prompt)

    is_anthropic = provider == "anthropic"
    per_input = usd("input_mtok", Decimal(0))
    written = usd("cache_write_mtok", per_input * Decimal("1.25") if is_anthropic else per_input)
    return (
        _nano(per_input),
        _nano(usd("output_mtok", Decimal(0))),
        _nano(usd("cache_read_mtok", per_input)),
        _nano(written),
        _nano(usd("cache_write_1h_mtok", per_input * 2 if is_anthropic else written)),
    )


def _starts(listed: ModelPrice) -> list[int]:
    """The prompt lengths above which another price applies, rising."""
    tiered = [value for value in vars(listed).values() if isinstance(value, TieredPrices)]
    return sorted({tier.start for value in tiered for tier in value.tiers})


def _at(value: Decimal | TieredPrices, prompt: int) -> Decimal:
    if isinstance(value, Decimal):
        return value
    reached = [tier.price for tier in value.tiers if prompt > tier.start]
    return reached[-1] if reached else value.base


def _nano(usd_per_mtok: Decimal) -> int:
    return int((usd_per_mtok * _NANO_PER_MTOK).to_integral_value(rounding=ROUND_CEILING))
