"""Handles of runs against a whole server: waiting, following, messages, and what a handle says of a run's end."""

import uuid
from contextlib import aclosing
from decimal import Decimal

import pytest

import corral
from corral import errors

pytestmark = pytest.mark.usefixtures("server")
QUICK = "[[fake:tool_calls=0]][[fake:answer=ok]]"
SLOW = "[[fake:command=sleep 60]]"


@pytest.fixture
def agent() -> corral.Agent:
    return corral.Agent(f"runs-{uuid.uuid4().hex[:8]}")


def test_wait_gives_the_whole_object(agent: corral.Agent) -> None:
    run = agent.submit("Say hi")
    ended = run.wait(60)
    assert (ended.metadata.name, ended.status.phase, ended["status"]["steps"]["total"]) == (run.name, "Succeeded", 4)
    assert (run.namespace, run.status().turns[0].prompt, run.cost()) == ("default", "input", Decimal(0))
    assert run.result() == run.answer() == "Done: exit code 0\nstep-0"


def test_a_handle_by_name(agent: corral.Agent) -> None:
    run = agent.submit(QUICK)
    again = corral.AgentRun.from_name(run.name, project="default")
    assert again.answer(60) == "ok"
    assert repr(again) == f"<AgentRun {run.name}>"


def test_waiting_has_a_bound_and_the_run_goes_on(agent: corral.Agent) -> None:
    with agent.submit(SLOW) as run:
        with pytest.raises(TimeoutError, match=r"did not end within 0\.1 s"):
            run.wait(0.1)
        with pytest.raises(errors.TimedOut, match="did not answer"):
            run.result(timeout=0.1)
        assert run.status().phase in ("Queued", "Running")
    with pytest.raises(errors.AgentRunFailed):
        run.result(60)


def test_follow_ends_with_the_run(agent: corral.Agent) -> None:
    events = list(agent.submit("Go").follow())
    assert [event.step.name for event in events if event.type == "step"][-1] == "model"
    assert events[-1].object.status.phase == "Succeeded"


async def test_follow_in_asyncio_code_can_be_left(agent: corral.Agent) -> None:
    async with await agent.submit.aio(SLOW) as run:
        async with aclosing(run.follow.aio()) as events:
            assert (await anext(events)).type in ("step", "run")


def test_a_message_is_delivered_once_for_its_key(agent: corral.Agent) -> None:
    with agent.submit(QUICK, keep_alive=True) as run:
        first, second = run.send("message", QUICK, "k1"), run.send("message", QUICK, message_key="k1")
        assert (first.seq, first.message_key) == (second.seq, "k1")
        run.send("message", {"any": QUICK})
        assert run.answer(60) == "ok"
        assert [turn.prompt for turn in run.status().turns][:2] == ["input", "k1"]
        assert len(run.status().turns) == 3
        with pytest.raises(errors.UsageError, match="differ"):
            run.send("message", "x", "a", message_key="b")
    with pytest.raises(errors.AgentRunFailed):
        run.wait(60)
    with pytest.raises(errors.AgentRunFinished):
        run.send("message", "late")


def test_delete(agent: corral.Agent) -> None:
    run = agent.submit(SLOW)
    run.delete()
    for call in (run.status, run.delete, run.answer, run.result, run.wait, run.steps):
        with pytest.raises(errors.NotFound):
            call()


def test_a_run_that_is_deleted_while_somebody_waits(agent: corral.Agent) -> None:
    run, seen = agent.submit(SLOW), []
    with pytest.raises(errors.NotFound, match=r"there is no|was deleted"):
        for event in run.follow():
            if event.type == "run" and not seen:
                seen.append(event)
                run.delete()
        run.wait(60)
    assert seen


def test_a_run_without_an_answer(agent: corral.Agent) -> None:
    run = agent.submit("[[fake:script=oops]]")
    with pytest.raises(errors.AgentRunFailed) as caught:
        run.result(60)
    assert caught.value.status["phase"] == "Failed"
    with pytest.raises(errors.NotFound):
        run.answer()
