"""Recorded steps: replayed and never repeated, fenced, and paid for before they run."""

from functools import partial

import anyio
import pytest
from anyio import to_thread

from bench import Bench
from corral.durable import inbox
from corral.durable.execution import Execution
from corral.durable.outcomes import Ending, OutcomeUnknown, Result, StepFailed
from corral.store import executions, journal
from corral.store.postgres import open_postgres
from postgres import Server

DONE = Ending("succeeded")


async def steps_of(bench: Bench, execution: str) -> list[journal.Step]:
    async with bench.store.read() as conn:
        return await journal.load(conn, execution)


async def test_completed_steps_are_replayed_and_not_repeated(bench: Bench) -> None:
    ran: list[str] = []

    async def body(execution: Execution) -> Ending:
        async def act(name: str) -> Result:
            ran.append(name)
            return Result({"n": name, "text": "x" * 1000})

        first = await execution.step("first", "tool", lambda: act("first"), effect="external")
        assert first.output["n"] == "first"
        message = await execution.receive("message")
        await execution.step("second", "tool", lambda: act(message.payload), effect="external")
        return DONE

    async with bench.working(body):
        execution = await bench.submit()
        waiting = await bench.until(execution, "waiting")
        assert waiting.reason == "WaitingForMessage"
        await bench.store.write(lambda tx: inbox.send(tx, execution, "k", "second"))
        ended = await bench.until(execution, "succeeded")
    assert ran == ["first", "second"]
    assert ended.epoch == 2
    assert [(s.key, s.state) for s in await steps_of(bench, execution)] == [
        ("first", "Completed"),
        ("message", "Completed"),
        ("second", "Completed"),
    ]


async def test_a_message_key_is_delivered_once_and_order_is_kept(bench: Bench) -> None:
    got: list[str] = []

    async def body(execution: Execution) -> Ending:
        for index in range(3):
            got.append((await execution.receive(f"m{index}")).payload)
        return DONE

    execution = await bench.submit()
    for key, payload in (("a", "1"), ("a", "1"), ("b", "2"), ("b", "other"), ("c", "3")):
        await bench.store.write(lambda tx, k=key, p=payload: inbox.send(tx, execution, k, p))
    async with bench.working(body):
        await bench.until(execution, "succeeded")
    assert got == ["1", "2", "3"]
    with pytest.raises(inbox.Finished):
        await bench.store.write(lambda tx: inbox.send(tx, execution, "d", "4"))


async def test_an_interrupted_external_step_parks_and_is_not_repeated(bench: Bench) -> None:
    runs, begun = 0, anyio.Event()

    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            nonlocal runs
            runs += 1
            begun.set()
            await anyio.sleep_forever()
            raise AssertionError

        await execution.step("command", "tool", act, effect="external", detail={"command": "send mail"})
        return DONE

    execution = await bench.submit()
    async with bench.working(body):
        with anyio.fail_after(10):
            await begun.wait()
    async with bench.working(body):
        row = await bench.until(execution, "waiting")
    assert runs == 1
    assert row.reason == "NeedsResolution"
    assert "send mail" in row.message


async def test_an_interrupted_idempotent_step_runs_again(bench: Bench) -> None:
    runs, begun = 0, anyio.Event()

    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            nonlocal runs
            runs += 1
            if runs == 1:
                begun.set()
                await anyio.sleep_forever()
            return Result(runs)

        step = await execution.step("read", "tool", act, effect="idempotent")
        assert (step.output, step.attempt) == (2, 2)
        return DONE

    execution = await bench.submit()
    async with bench.working(body):
        with anyio.fail_after(10):
            await begun.wait()
    async with bench.working(body):
        await bench.until(execution, "succeeded")


async def test_unknown_outcomes_are_charged_at_their_reservation_and_tried_again(bench: Bench) -> None:
    calls = 0

    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise OutcomeUnknown("the connection broke")
            return Result("ok", cost=30)

        await execution.step("model", "model", act, effect="external", interrupted="charge", reserve=100)
        return DONE

    execution = await bench.submit(cap=250)
    async with bench.working(body):
        row = await bench.until(execution, "succeeded")
    assert (row.spent, row.reserved) == (130, 0)
    step = (await steps_of(bench, execution))[0]
    assert (step.attempt, step.cost) == (2, 130)
    assert step.detail["attempts"][0]["outcome"] == "Uncertain"


async def test_what_does_not_fit_under_the_cap_is_not_begun(bench: Bench) -> None:
    calls = 0

    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            nonlocal calls
            calls += 1
            return Result(None, cost=90)

        for index in range(5):
            await execution.step(f"m{index}", "model", act, effect="external", interrupted="charge", reserve=100)
        return DONE

    execution = await bench.submit(cap=200)
    async with bench.working(body):
        row = await bench.until(execution, "waiting")
    assert (row.reason, row.spent, row.reserved, calls) == ("MaxCostReached", 180, 0, 2)
    assert "cap" in row.message


async def test_cancel_interrupts_at_once_books_what_was_held_and_releases(bench: Bench) -> None:
    begun = anyio.Event()

    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            begun.set()
            await anyio.sleep_forever()
            raise AssertionError

        await execution.step("model", "model", act, effect="external", interrupted="charge", reserve=70)
        return DONE

    async with bench.working(body) as program:
        execution = await bench.submit(cap=100)
        with anyio.fail_after(10):
            await begun.wait()
        await bench.store.write(lambda tx: executions.request_cancel(tx, execution))
        row = await bench.until(execution, "cancelled")
    assert (row.spent, row.reserved) == (70, 0)
    assert set(program.released) == {execution}
    assert [s.state for s in await steps_of(bench, execution)] == ["Cancelled"]


async def test_a_deadline_ends_running_and_waiting_executions(bench: Bench) -> None:
    async def body(execution: Execution) -> Ending:
        if execution.input == "waits":
            await execution.receive("never")
        await anyio.sleep_forever()
        raise AssertionError

    async with bench.working(body):
        soon = await bench.store.write(lambda tx: _after(tx.now, 300))
        ids = [await bench.submit(deadline=soon, input=what) for what in ("waits", "works")]
        rows = [await bench.until(execution, "failed") for execution in ids]
    assert [row.reason for row in rows] == ["DeadlineExceeded", "DeadlineExceeded"]


async def _after(now: int, ms: int) -> int:
    return now + ms


async def test_a_program_that_changed_is_told_so(bench: Bench) -> None:
    name = "before"

    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            return Result(1)

        await execution.step(name, "tool", act, effect="external")
        await execution.receive("m")
        return DONE

    async with bench.working(body):
        execution = await bench.submit()
        await bench.until(execution, "waiting")
        name = "after"
        await bench.store.write(lambda tx: inbox.send(tx, execution, "k", 1))
        row = await bench.until(execution, "failed")
    assert row.reason == "ReplayMismatch"
    assert "before" in row.message
    assert "after" in row.message


async def test_a_known_failure_ends_the_execution_with_its_reason(bench: Bench) -> None:
    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            raise StepFailed("ModelRejected", "401: no such key")

        await execution.step("model", "model", act, effect="external")
        return DONE

    async with bench.working(body):
        execution = await bench.submit()
        row = await bench.until(execution, "failed")
    assert (row.reason, row.message) == ("ModelRejected", "401: no such key")


async def test_a_fault_of_the_program_ends_only_its_execution(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def body(execution: Execution) -> Ending:
        if execution.input == "bad":
            raise RuntimeError("a fault")
        return DONE

    async with bench.working(body):
        bad, good = await bench.submit(input="bad"), await bench.submit(input="good")
        row = await bench.until(bad, "failed")
        await bench.until(good, "succeeded")
    assert row.reason == "InternalError"
    assert "a fault" in caplog.text


async def test_a_claim_that_was_taken_over_writes_nothing(bench: Bench) -> None:
    began, go, lost = anyio.Event(), anyio.Event(), anyio.Event()

    async def body(execution: Execution) -> Ending:
        async def act() -> Result:
            began.set()
            with anyio.CancelScope(shield=True):
                await go.wait()
            return Result("late")

        try:
            await execution.step("s", "tool", act, effect="external")
        finally:
            lost.set()
        return DONE

    async with bench.working(body):
        execution = await bench.submit()
        with anyio.fail_after(10):
            await began.wait()
            await bench.store.write(lambda tx: executions.release_claim(tx, execution, 1))
            await bench.until(execution, "running", "waiting")
            go.set()
            await lost.wait()
        row = await bench.until(execution, "waiting")
    assert row.reason == "NeedsResolution"
    step = (await steps_of(bench, execution))[0]
    assert (step.state, step.output) == ("Started", None)


async def test_runs_go_on_after_the_database_was_away(own_postgres: Server) -> None:
    ran: list[str] = []
    go = anyio.Event()

    async def body(execution: Execution) -> Ending:
        async def act(name: str) -> Result:
            ran.append(name)
            if name == "second":
                await go.wait()
            return Result(name)

        for name in ("first", "second", "third"):
            await execution.step(name, "tool", partial(act, name), effect="idempotent")
        return DONE

    async with open_postgres(own_postgres.database()) as store:
        bench = Bench(store)
        async with bench.working(body):
            execution = await bench.submit()
            with anyio.fail_after(30):
                while "second" not in ran:
                    await anyio.sleep(0.01)
                await to_thread.run_sync(own_postgres.stop)
                go.set()
                await to_thread.run_sync(own_postgres.start)
            row = await bench.until(execution, "succeeded", "failed")
    assert row.state == "succeeded", row.message
    assert ran.count("first") == 1
    assert ran[-1] == "third"


async def test_a_program_that_reads_while_the_database_is_away_goes_on_later(own_postgres: Server) -> None:
    async with open_postgres(own_postgres.database()) as store:
        bench = Bench(store)
        begun, away, failed = anyio.Event(), anyio.Event(), anyio.Event()

        async def body(execution: Execution) -> Ending:
            begun.set()
            await away.wait()
            try:
                await bench.row(execution.id)
            except Exception:
                failed.set()
                raise
            return DONE

        async with bench.working(body):
            execution = await bench.submit()
            with anyio.fail_after(30):
                await begun.wait()
                await to_thread.run_sync(own_postgres.stop)
                away.set()
                await failed.wait()
                await to_thread.run_sync(own_postgres.start)
            row = await bench.until(execution, "succeeded", "failed")
    assert row.state == "succeeded", row.message
