"""Agents against a whole server: definition, runs, many runs; each call in both forms."""

import asyncio
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest

import corral
from corral import errors
from corral.sdk._find import Server
from sdk.stub_server import Stub, answer

pytestmark = pytest.mark.usefixtures("server")
SLOW = "[[fake:command=sleep 60]]"


def named(prefix: str = "agent") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def saying(text: str) -> str:
    return f"[[fake:tool_calls=0]][[fake:answer={text}]]"


def phases(agent: str) -> list[str]:
    return [run.status.phase for run in corral.Client().list("AgentRun", fields=f"spec.agent={agent}")]


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition of the server, by its changes."""
    for _ in corral.Client().watch("AgentRun"):
        if condition():
            return


def test_the_first_steps() -> None:
    agent = corral.ClaudeAgent(named(), system="You are careful.", families=["haiku", "sonnet"])
    assert agent.remote("[[fake:command=echo out-of-the-sandbox]] Go.") == "Done: exit code 0\nout-of-the-sandbox"
    run = agent.submit(saying("one"), keep_alive=True)
    receipt = run.send("message", saying("two"))
    assert receipt.seq >= 1
    assert run.answer() == "two"
    assert [step.name for step in run.steps()].count("model") == 2
    run.cancel()
    with pytest.raises(errors.AgentRunFailed) as caught:
        run.wait(30)
    assert (caught.value.run, caught.value.status["phase"]) == (run.name, "Cancelled")
    run.cancel()


async def test_the_first_steps_in_asyncio_code() -> None:
    agent = corral.ClaudeAgent(named(), system="You are careful.", families=["haiku"])
    assert await agent.remote.aio(saying("first")) == "first"
    async with await agent.submit.aio(saying("one"), keep_alive=True) as run:
        assert await run.answer.aio() == "one"
        await run.send.aio("message", saying("two"))
        assert await run.answer.aio() == "two"
    with pytest.raises(errors.AgentRunFailed):
        await run.wait.aio(30)


async def test_a_call_that_blocks_inside_a_running_loop_works() -> None:
    assert corral.Agent(named()).remote(saying("here")) == "here"


def test_many_threads_share_the_connections() -> None:
    agent = corral.Agent(named())
    agent.deploy()
    found: list[str] = []
    threads = [threading.Thread(target=lambda i=i: found.append(agent.remote(saying(f"t{i}")))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == ["t0", "t1", "t2", "t3"]


def test_deploy_changes_what_is_written_and_nothing_else() -> None:
    name, client = named(), corral.Client()
    first = corral.Agent(name, system="a", max_tokens=900, env={"A": "1"}, per_run_max_cost=0.25).deploy()
    assert first["metadata"]["generation"] == 1
    assert (first.spec.max_tokens, first.spec.per_run_max_cost_usd) == (900, "0.25")
    client.patch("Agent", name, {"metadata": {"labels": {"team": "search"}}, "spec": {"maxToolCalls": 7}})
    again = corral.Agent(name, system="b", env={"A": "1"}, per_run_max_cost=Decimal("0.25")).deploy()
    assert (again.spec.system, again.spec.max_tokens, again.spec.max_tool_calls) == ("b", 8192, 7)
    assert again.metadata.labels.team == "search"
    same = corral.Agent(name, system="b", env={"A": "1"}, per_run_max_cost="0.25").deploy()
    assert same.metadata.generation == again.metadata.generation


def test_stop_start_and_delete() -> None:
    agent = corral.Agent(named(), system="x")
    agent.deploy()
    agent.stop()
    with pytest.raises(errors.AgentStopped) as caught:
        agent.submit("hi")
    assert (caught.value.status, caught.value.reason) == (409, "AgentStopped")
    agent.start()
    assert agent.remote(saying("again")) == "again"
    agent.delete()
    with pytest.raises(errors.NotFound):
        corral.Client().get("Agent", agent.name)
    assert agent.remote(saying("made anew")) == "made anew"


def test_an_agent_by_its_name() -> None:
    name = named()
    corral.Agent(name, system="x").deploy()
    agent = corral.Agent.from_name(name)
    assert agent.remote({"q": [1, saying("json"), None]}) == "json"
    with pytest.raises(errors.UsageError, match="has no definition"):
        agent.deploy()
    with pytest.raises(errors.Invalid, match="there is no agent"):
        corral.Agent.from_name("nobody").submit("hi")


async def test_what_the_server_does_not_know_is_unsupported(stub: Stub) -> None:
    cause = {"field": "spec.network", "reason": "FieldValueNotSupported", "message": "there is no such field"}
    refusal = {"code": 422, "reason": "Invalid", "message": "Agent is invalid", "details": {"causes": [cause]}}
    stub.answers = [answer("404 Not Found", '{"message": "none"}'), answer("422 Invalid", json.dumps(refusal))]
    agent = corral.Agent("a", network=corral.Egress.allow(["example.com"]), client=corral.Client(stub.url, "k"))
    with pytest.raises(errors.Unsupported, match=r"does not know spec\.network") as caught:
        await agent.deploy.aio()
    assert json.loads(stub.received[1].body)["spec"] == {
        "network": {"egress": {"policy": "AllowList", "allow": ["example.com"]}}
    }
    assert (caught.value.code, caught.value.causes[0].field) == (422, "spec.network")


def test_the_same_idempotency_key_is_the_same_run() -> None:
    agent = corral.Agent(named())
    first, second = (agent.submit(saying("x"), idempotency_key="once-" + agent.name) for _ in range(2))
    assert first.name == second.name
    with pytest.raises(errors.IdempotencyKeyReused):
        agent.submit(saying("y"), idempotency_key="once-" + agent.name)


@pytest.mark.parametrize("deadline", ["1s", timedelta(seconds=1), datetime.now(UTC) + timedelta(minutes=30)])
def test_deadlines(deadline: Any) -> None:
    agent = corral.Agent(named())
    run = agent.submit(saying("waiting"), keep_alive=True, deadline=deadline)
    if isinstance(deadline, datetime):
        assert run.answer() == "waiting"
        run.delete()
        return
    with pytest.raises(errors.AgentRunFailed) as caught:
        run.wait(30)
    assert caught.value.reason == "DeadlineExceeded"


def test_map_in_order_and_as_finished() -> None:
    agent = corral.Agent(named())
    slow_first = [f"{saying('a')}[[fake:delay=1.5]]", saying("b"), saying("c")]
    assert list(agent.map(iter(slow_first), max_active=2)) == ["a", "b", "c"]
    assert list(agent.map(slow_first, max_active=2, order_outputs=False)) == ["b", "c", "a"]
    assert list(agent.map([])) == []


def test_map_takes_inputs_that_use_the_sdk() -> None:
    agent = corral.Agent(named())

    def inputs() -> Iterator[str]:
        yield saying(agent.remote(saying("inner")))

    assert list(agent.map(inputs())) == ["inner"]


def test_map_with_a_run_that_fails() -> None:
    agent = corral.Agent(named())
    inputs = [saying("a"), "[[fake:script=oops]]", saying("c")]
    first, second, third = agent.map(inputs, return_exceptions=True)
    assert (first, third) == ("a", "c")
    assert isinstance(second, errors.AgentRunFailed)
    answers = agent.map(inputs)
    assert next(answers) == "a"
    with pytest.raises(errors.AgentRunFailed):
        next(answers)


def test_map_that_ends_early_cancels_what_is_left() -> None:
    agent = corral.Agent(named())
    for text in agent.map([saying("a"), SLOW, SLOW, SLOW], max_active=3):
        assert text == "a"
        break
    assert "Running" not in phases(agent.name)
    assert phases(agent.name).count("Succeeded") == 1


async def test_map_in_asyncio_code_ends_early() -> None:
    agent = corral.Agent(named())
    async with aclosing(agent.map.aio([saying("a"), SLOW], max_active=2)) as answers:
        assert await anext(answers) == "a"
    assert set(phases(agent.name)) <= {"Succeeded", "Cancelling", "Cancelled"}


def test_map_refuses_a_senseless_bound() -> None:
    with pytest.raises(errors.UsageError, match="max_active is 0"):
        corral.Agent("a").map(["x"], max_active=0)


def test_remote_that_is_given_up_cancels_its_run() -> None:
    agent = corral.Agent(named())
    with pytest.raises(errors.TimedOut, match="the run was cancelled"):
        agent.remote(SLOW, timeout=1)
    until(lambda: phases(agent.name) == ["Cancelled"])


async def test_remote_that_is_cancelled_cancels_its_run() -> None:
    agent = corral.Agent(named())
    await agent.deploy.aio()
    call = asyncio.create_task(agent.remote.aio(SLOW))
    async with aclosing(corral.Client().watch.aio("AgentRun", fields=f"spec.agent={agent.name}")) as changes:
        with anyio.fail_after(60):
            async for change in changes:
                phase = change.object.status.phase
                if phase == "Running":
                    call.cancel()
                if phase == "Cancelled":
                    break
    with pytest.raises(asyncio.CancelledError):
        await call


def test_arguments_that_cannot_be(server: Server) -> None:
    with pytest.raises(errors.UsageError, match="has no argument 'sytem'"):
        corral.Agent("a", sytem="typing error")  # type: ignore[call-arg]
    with pytest.raises(errors.UsageError, match="submit has no argument 'deadlin'"):
        corral.Agent("a").map(["x"], deadlin="1s")  # type: ignore[call-arg]
    with pytest.raises(errors.UsageError, match="cannot be sent as JSON"):
        corral.Agent(named()).submit({"x": object()})
    with pytest.raises(errors.UsageError, match="cannot be sent as JSON"):
        list(corral.Agent(named()).map([float("nan")]))
    with pytest.raises(errors.UsageError, match="needs a model"):
        corral.ModelAgent("a")
    with pytest.raises(errors.UsageError, match="no amount of USD"):
        corral.Agent("a", per_run_max_cost="much").deploy()
    with pytest.raises(errors.UsageError, match="no time zone"):
        corral.Agent(named()).submit("x", deadline=datetime(2030, 1, 1))  # noqa: DTZ001


def test_a_model_agent_names_its_model() -> None:
    agent = corral.ModelAgent(named(), model="scripted/other")
    spec = agent.deploy().spec
    assert (spec.model.access, spec.model.name) == ("OnDemand", "scripted/other")
    run = agent.submit(saying("x"))
    assert run.result(30) == "x"
    assert run.status().turns[0].model == "scripted/other"


def test_projects_and_clients(server: Server, bare: pytest.MonkeyPatch) -> None:
    bare.delenv("CORRAL_URL")
    client = corral.Client(server.url, server.key)
    agent = corral.Agent(named(), client=client)
    assert agent.remote(saying("x")) == "x"
    assert client.get("agents", agent.name).metadata.namespace == "default"
