"""The gate that all calls of one account pass."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.gateway import retry
from corral.gateway.call import CallError, Overloaded, ProviderSettings, Reply, Request
from corral.gateway.gate import Gate
from corral.gateway.providers import anthropic
from corral.gateway.router import Gateway
from corral.testing.model import serve_model


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def _gate(clock: Clock, ceiling: int = 8) -> Gate:
    return Gate(ceiling, rng=random.Random(1), clock=clock.read, sleep=clock.sleep)


async def test_no_more_than_the_limit_run_at_once_and_in_order() -> None:
    gate, running, order = Gate(3), 0, list[int]()

    async def work(number: int) -> None:
        nonlocal running
        async with gate.slot():
            running += 1
            assert running <= 3
            order.append(number)
            await anyio.lowlevel.checkpoint()
            running -= 1

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(work, number)
    assert order == list(range(20))


async def test_it_stays_shut_until_the_service_said() -> None:
    clock = Clock()
    gate = _gate(clock)
    gate.refused(started=0.0, retry_after=2.0)
    passed = []
    for _ in range(4):
        clock.now = 0.0
        async with gate.slot():
            passed.append(clock.now)
    assert all(2.0 <= moment <= 3.0 for moment in passed)
    assert len(set(passed)) == 4
    async with gate.slot():
        assert clock.now == passed[-1]


async def test_a_pause_that_is_too_long_is_told_at_once() -> None:
    clock = Clock()
    gate = _gate(clock, ceiling=2)
    gate.refused(started=0.0, retry_after=3600.0)
    for _ in range(3):
        with pytest.raises(Overloaded) as caught:
            async with gate.slot():
                raise AssertionError("the gate is open")
        assert caught.value.retry_after == 3600.0
    clock.now = 3600.0
    async with gate.slot():
        assert clock.now == 3600.0


def test_it_shrinks_once_for_a_burst_and_grows_again() -> None:
    clock = Clock()
    gate = _gate(clock, ceiling=16)
    clock.now = 1.0
    for _ in range(8):
        gate.refused(started=0.5, retry_after=None)
    assert gate.limit == 8
    for _ in range(8):
        gate.refused(started=1.0, retry_after=None)
    assert gate.limit == 4
    for _ in range(100):
        gate.succeeded()
    assert gate.limit == 14
    for _ in range(100):
        gate.succeeded()
    assert gate.limit == 16


@given(st.lists(st.booleans(), max_size=200))
def test_the_limit_stays_between_the_floor_and_the_ceiling(outcomes: list[bool]) -> None:
    clock = Clock()
    gate = _gate(clock)
    for succeeded in outcomes:
        clock.now += 1
        if succeeded:
            gate.succeeded()
        else:
            gate.refused(clock.now, None)
        assert 4 <= gate.limit <= 8


async def test_who_is_cancelled_leaves_no_slot_behind() -> None:
    gate = Gate(1)
    with anyio.fail_after(10):
        for _ in range(3):
            async with gate.slot(), anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(_pass, gate)
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
            with anyio.CancelScope() as scope:
                async with gate.slot():
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        await _pass(gate)


async def test_a_cancelled_waiter_hands_the_slot_on() -> None:
    gate = Gate(1)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            async with gate.slot():
                waiter = asyncio.create_task(_pass(gate))
                await anyio.wait_all_tasks_blocked()
                group.start_soon(_pass, gate)
                await anyio.wait_all_tasks_blocked()
            # The slot is the waiter's already, and the waiter has not run since.
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
        await _pass(gate)


async def _pass(gate: Gate) -> None:
    async with gate.slot():
        pass


async def test_a_storm_of_refusals_is_lived_through(ask: Callable[[str], Request]) -> None:
    async with serve_model() as url:
        gateway = Gateway({"anthropic": anthropic.create_provider(ProviderSettings(base_url=url))}, "")
        route = gateway.resolve("anthropic/m")
        replies: list[Reply] = []

        async def run(number: int) -> None:
            request = ask(f"run {number} [[fake:error=429x1]] [[fake:retry_after=0.2]]")

            async def call() -> Reply:
                async with gateway.slot(route):
                    return await gateway.call(route, request)

            replies.append(await retry.attempt(call))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(run, number)
        assert len(replies) == 20
        async with httpx2.AsyncClient(trust_env=False) as client:
            log = (await client.get(f"{url}/requests")).json()
        await gateway.aclose()
    assert len(log) == 40
    by_run: dict[str, list[float]] = {}
    for row in log:
        by_run.setdefault(row["hash"], []).append(row["t"])
    for times in by_run.values():
        assert all(later - earlier >= 0.199 for earlier, later in pairwise(times))


async def test_what_is_no_refusal_leaves_the_gate_alone(ask: Callable[[str], Request]) -> None:
    async with serve_model() as url:
        gateway = Gateway({"anthropic": anthropic.create_provider(ProviderSettings(base_url=url))}, "")
        route = gateway.resolve("anthropic/m")
        for directives in ("[[fake:cut=1]]", "[[fake:error=401]]"):
            with pytest.raises(CallError):
                await gateway.call(route, ask(directives))
        with anyio.fail_after(10):
            async with gateway.slot(route):
                assert (await gateway.call(route, ask("go"))).stop == "tool_use"
        await gateway.aclose()
