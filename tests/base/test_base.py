"""The small things: durations and moments, money, text that is safe to keep and to show."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.base import clock, money, text


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 90), ("8m", 480), ("1h30m", 5400), ("250ms", 0.25), ("1d", 86400), ("1.5h", 5400)]
)
def test_durations(written: str, seconds: float) -> None:
    assert clock.parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", ["", "5", "m", "5 m", "-5m", "5x", "5m!", "1e3s"])
def test_what_is_no_duration_is_told_the_rule(written: str) -> None:
    with pytest.raises(ValueError, match="such as 90s or 1h30m"):
        clock.parse_duration(written)


def test_moments_need_an_offset_and_become_utc() -> None:
    assert clock.parse_moment("2026-03-01T02:30:00+05:30") == datetime(2026, 2, 28, 21, 0, tzinfo=UTC)
    with pytest.raises(ValueError, match="has no offset"):
        clock.parse_moment("2026-03-01T02:30:00")
    with pytest.raises(ValueError, match="RFC 3339"):
        clock.parse_moment("tomorrow")


@given(st.integers(0, 7_000_000_000_000))
def test_written_moments_sort_as_text(milliseconds: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    later = moment + timedelta(milliseconds=1)
    assert clock.rfc3339(moment) < clock.rfc3339(later)


@given(st.decimals(min_value=0, max_value=1000, places=9))
def test_money_is_exact_to_the_nano_dollar(amount: Decimal) -> None:
    assert Decimal(money.usd(money.nano(amount))) == amount


def test_money_is_never_rounded_down_and_is_short() -> None:
    assert money.nano(Decimal("0.0000000001")) == 1
    assert [money.usd(n) for n in (0, 1_000_000_000, 500_000_000, 1_234_567_891)] == [
        "0.00",
        "1.00",
        "0.50",
        "1.234567891",
    ]


@given(st.binary(max_size=200))
def test_decoded_text_can_be_stored_anywhere(data: bytes) -> None:
    decoded = text.decode(data)
    assert "\x00" not in decoded
    decoded.encode("utf-8")


@given(st.text(max_size=300), st.integers(2, 100))
def test_clipped_text_keeps_head_and_tail_and_counts_the_rest(whole: str, limit: int) -> None:
    clipped = text.clip(whole, limit)
    if len(whole) <= limit:
        assert clipped == whole
    else:
        assert clipped.startswith(whole[: limit - limit // 2])
        assert clipped.endswith(whole[len(whole) - limit // 2 :])
        assert f"{len(whole) - limit} characters left out" in clipped


@given(st.text(max_size=100))
def test_printable_text_cannot_steer_a_terminal(value: str) -> None:
    shown = text.printable(value)
    assert not any(ord(c) < 32 and c not in "\t\n\r" for c in shown)
    assert not any(c in shown for c in "\x7f\x9b\u202e\u2066")
