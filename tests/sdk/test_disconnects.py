"""Connections that break: a proxy between the SDK and a whole server cuts them."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

import corral
from corral import errors
from corral.sdk._find import Server
from house import house
from sdk.cutting_proxy import Proxy, proxying
from sdk.stub_server import Stub, answer, beginning

STEPS = 3
WORK = f"[[fake:tool_calls={STEPS}]][[fake:command=sleep 0.3; echo {{n}}]]"


class Line:
    """The proxy, from the test's thread."""

    def __init__(self, portal: BlockingPortal, proxy: Proxy, server: Server) -> None:
        self.proxy, self.client = proxy, corral.Client(proxy.url, server.key)
        self.cut: Callable[[], None] = lambda: portal.call(proxy.cut)


@pytest.fixture
def line(server: Server) -> Iterator[Line]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(proxying(server.url)) as proxy:
        found = Line(portal, proxy, server)
        yield found
        assert proxy.cuts, "the test has cut nothing"


def agent(line: Line) -> corral.Agent:
    return corral.Agent(f"cut-{uuid.uuid4().hex[:8]}", client=line.client)


def test_following_misses_nothing_and_repeats_nothing(line: Line) -> None:
    seen = []
    run = agent(line).submit(WORK)
    for event in run.follow():
        if event.type == "step":
            seen.append((event.step.key, event.step.outcome))
        line.cut()
    assert len(seen) == len(set(seen))
    done = {key for key, outcome in seen if outcome == "Completed"}
    assert done == {step.key for step in run.steps()}
    assert len([key for key in done if ".tool-" in key]) == STEPS


def test_waiting_survives(line: Line) -> None:
    run = agent(line).submit(WORK)
    events = run.follow()
    next(events)
    line.cut()
    assert run.wait(60).status.phase == "Succeeded"
    line.cut()
    assert run.answer().startswith("Done:")


def test_an_answer_that_is_lost_does_not_make_a_second_run(line: Line) -> None:
    worker = agent(line)
    worker.deploy()
    line.proxy.swallow = 1
    run = worker.submit("[[fake:tool_calls=0]][[fake:answer=once]]")
    assert run.result(60) == "once"
    runs = line.client.list("AgentRun", fields=f"spec.agent={worker.name}")
    assert [item.metadata.name for item in runs] == [run.name]


def test_a_message_whose_receipt_is_lost_is_delivered_once(line: Line) -> None:
    with agent(line).submit("[[fake:tool_calls=0]]", keep_alive=True) as run:
        run.answer(60)
        line.proxy.swallow = 1
        run.send("message", "[[fake:tool_calls=0]][[fake:answer=two]]")
        assert run.answer(60) == "two"
        assert len(run.status().turns) == 2


def test_a_deletion_whose_answer_is_lost_has_happened(line: Line) -> None:
    worker = agent(line)
    worker.deploy()
    line.proxy.swallow = 1
    worker.delete()
    with pytest.raises(errors.NotFound):
        worker.delete()


def test_map_survives(line: Line) -> None:
    worker = agent(line)
    worker.deploy()
    inputs = [f"[[fake:tool_calls=0]][[fake:delay={i / 5}]][[fake:answer={i}]]" for i in range(5)]
    found = []
    for text in worker.map(inputs, max_active=2):
        found.append(text)
        line.cut()
    assert found == ["0", "1", "2", "3", "4"]


def test_waiting_and_following_outlast_a_restart_of_the_server(tmp_path: Path) -> None:
    waited: list[str] = []
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        with portal.wrap_async_context_manager(house(tmp_path)):
            record = json.loads((tmp_path / "server.json").read_text(encoding="utf-8"))
            proxy = stack.enter_context(portal.wrap_async_context_manager(proxying(record["url"])))
            worker = corral.Agent("worker", client=corral.Client(proxy.url, record["key"]))
            run = worker.submit("[[fake:command=sleep 1; echo done]]")
            events = run.follow()
            next(events)
            waiter = threading.Thread(target=lambda: waited.append(run.wait(60).status.phase))
            waiter.start()
        with portal.wrap_async_context_manager(house(tmp_path)):
            proxy.target = json.loads((tmp_path / "server.json").read_text(encoding="utf-8"))["url"]
            assert [event for event in events][-1].object.status.phase == "Succeeded"
            waiter.join(60)
    assert waited == ["Succeeded"]


async def test_changes_that_are_gone_are_made_up_for_by_reading_again(stub: Stub) -> None:
    def run(phase: str, version: int) -> bytes:
        document = {"metadata": {"name": "r", "resourceVersion": str(version)}, "status": {"phase": phase}}
        return answer("200 OK", json.dumps(document))

    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "gone"}}
    stub.answers = [
        run("Running", 5),
        answer("410 Gone", json.dumps(gone["object"])),
        run("Running", 7),
        beginning(json.dumps(gone) + "\n"),
        run("Succeeded", 9),
    ]
    client = corral.Client(stub.url, "k")
    ended = await corral.AgentRun.from_name("r", client=client).wait.aio(30)
    assert ended.metadata.resource_version == "9"
    assert ["resourceVersion=5" in r.target for r in stub.received] == [False, True, False, False, False]
    assert "resourceVersion=7" in stub.received[3].target


async def test_a_run_that_is_deleted_ends_the_wait(stub: Stub) -> None:
    document = {"metadata": {"name": "r", "resourceVersion": "5"}, "status": {"phase": "Running"}}
    deleted = {"type": "DELETED", "object": document}
    stub.answers = [answer("200 OK", json.dumps(document)), beginning(json.dumps(deleted) + "\n")]
    with pytest.raises(errors.NotFound, match="was deleted"):
        await corral.AgentRun.from_name("r", client=corral.Client(stub.url, "k")).wait.aio(30)
