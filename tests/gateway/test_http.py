"""The parts of a call that need no socket: how long to wait, and what must not be shown."""

from datetime import UTC, datetime

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.gateway import http

NOW = datetime(2026, 1, 31, 9, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"Retry-After": "Sat, 31 Jan 2026 09:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 31 Jan 2026 08:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 31 Jan 2026 09:00:30 -0000"}, 30.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert http.retry_after(httpx2.Headers(headers), lambda: NOW) == seconds


@given(st.text())
def test_any_retry_after_is_a_wait_or_none(value: str) -> None:
    seconds = http.retry_after({"retry-after": value}, lambda: NOW)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key a+b/c= is bad", "key *** is bad"),
        ("key a%2Bb%2Fc%3D is bad", "key *** is bad"),
        ("key YStiL2M9 is bad", "key *** is bad"),
        ("Incorrect key sk-proj-abc_DEF-123456", "Incorrect key ***"),
        ("ask-me-anything is fine", "ask-me-anything is fine"),
    ],
)
def test_keys_are_taken_out(text: str, shown: str) -> None:
    assert http.without_key(text, "a+b/c=") == shown


@given(st.dictionaries(st.text(st.characters(codec=None)), st.text(st.characters(codec=None))))
def test_a_body_is_always_utf_8(body: dict[str, str]) -> None:
    assert http.encoded(body).decode()
