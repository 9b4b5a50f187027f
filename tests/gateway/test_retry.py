"""Trying again: only where it is safe, not before the service allows it, and never all at once."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.gateway import retry
from corral.gateway.call import CallError, NotSent, Overloaded, ProviderSettings, Rejected, Reply, Request, Uncertain
from corral.gateway.providers import anthropic
from corral.testing.model import serve_model

REPLY = Reply(content=[], stop="end_turn", usage=None, model="m")


class Flaky:
    """Fails with each of the errors in turn, then replies; its sleep takes no time."""

    def __init__(self, *errors: CallError) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.waits: list[float] = []
        self.reports: list[retry.Attempt] = []

    async def call(self) -> Reply:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return REPLY

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def report(self, attempt: retry.Attempt) -> None:
        self.reports.append(attempt)

    async def attempt(self, tries: int = 5) -> Reply:
        return await retry.attempt(self.call, tries=tries, rng=random.Random(1), sleep=self.sleep, report=self.report)


async def test_what_passes_is_tried_again_and_each_attempt_is_reported() -> None:
    flaky = Flaky(NotSent("no route"), Overloaded("busy", retry_after=2.0), Overloaded("busy"))
    assert await flaky.attempt() is REPLY
    assert [(a.number, a.error and a.error.kind, a.wait) for a in flaky.reports] == [
        (1, "NotSent", flaky.waits[0]),
        (2, "Overloaded", flaky.waits[1]),
        (3, "Overloaded", flaky.waits[2]),
        (4, None, None),
    ]
    assert flaky.waits[1] >= 2.0


@pytest.mark.parametrize("error", [Uncertain("cut"), Rejected("bad key"), CallError("other")])
async def test_what_may_be_billed_or_is_refused_is_not_tried_again(error: CallError) -> None:
    flaky = Flaky(error)
    with pytest.raises(CallError) as caught:
        await flaky.attempt()
    assert caught.value is error
    assert (flaky.calls, flaky.waits, len(flaky.reports)) == (1, [], 1)


async def test_the_last_error_is_raised_after_the_tries() -> None:
    flaky = Flaky(*[Overloaded(f"busy {n}") for n in range(9)])
    with pytest.raises(Overloaded, match="busy 2"):
        await flaky.attempt(tries=3)
    assert (flaky.calls, len(flaky.waits), flaky.reports[-1].wait) == (3, 2, None)


async def test_a_wait_longer_than_a_minute_is_left_to_the_caller() -> None:
    flaky = Flaky(Overloaded("busy", retry_after=61.0))
    with pytest.raises(Overloaded) as caught:
        await flaky.attempt()
    assert caught.value.retry_after == 61.0
    assert flaky.waits == []


@given(st.one_of(st.none(), st.floats(0, 60)), st.integers(1, 50), st.integers(0, 2**32))
def test_no_wait_is_shorter_than_asked_or_longer_than_a_minute(asked: float | None, number: int, seed: int) -> None:
    wait = retry.pause(Overloaded("busy", retry_after=asked), number, random.Random(seed))
    assert wait is not None
    assert (asked or 0.0) <= wait <= 60.0


def test_agents_that_failed_together_do_not_come_back_together() -> None:
    waits = sorted(
        retry.pause(Overloaded("busy", retry_after=2.0), 1, random.Random(seed)) or 0.0 for seed in range(200)
    )
    assert len(set(waits)) == 200
    in_tenths = [sum(2 + n / 10 <= wait < 2 + (n + 1) / 10 for wait in waits) for n in range(10)]
    assert min(in_tenths) >= 5


@pytest.mark.parametrize(
    ("directives", "attempts"), [("[[fake:error=529x4]]", 5), ("[[fake:error=503x2]]", 3), ("[[fake:error=429x3]]", 4)]
)
async def test_a_call_lives_through_an_overloaded_service(
    ask: Callable[[str], Request], directives: str, attempts: int
) -> None:
    async with serve_model() as url:
        provider = anthropic.create_provider(ProviderSettings(api_key="k", base_url=url))
        flaky = Flaky()
        reply = await retry.attempt(lambda: provider.call(ask(directives)), sleep=flaky.sleep, report=flaky.report)
        await provider.aclose()
    assert reply.stop == "tool_use"
    assert [attempt.number for attempt in flaky.reports] == list(range(1, attempts + 1))
    assert all(isinstance(attempt.error, Overloaded) for attempt in flaky.reports[:-1])
    assert len(flaky.waits) == attempts - 1
