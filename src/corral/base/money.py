"""Money inside is an integer of nano-USD, so sums are exact; on the wire it is a decimal string of USD."""

from decimal import ROUND_CEILING, Decimal

NANO = 1_000_000_000


def nano(usd: Decimal) -> int:
    """USD as nano-USD; what is smaller than one nano-dollar counts as one (never round a cost down)."""
    return int((usd * NANO).to_integral_value(rounding=ROUND_CEILING))


def usd(amount: int) -> str:
    """Nano-USD as a decimal string: at least two decimals, and no more than it needs."""
    text = format(Decimal(amount).scaleb(-9), "f")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"
