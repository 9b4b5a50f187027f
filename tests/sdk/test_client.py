"""The client over a real socket: what it sends, what it repeats, and what it makes of broken answers."""

import json
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from corral.sdk import ApiError, Client, Unreachable
from sdk.stub_server import Stub, answer, beginning

RUN = {"kind": "AgentRun", "metadata": {"name": "r", "resourceVersion": "7"}, "spec": {"agent": "a", "input": "x"}}
STATUS = {
    "kind": "Status",
    "code": 422,
    "reason": "Invalid",
    "message": "AgentRun is invalid",
    "fix": "Correct spec.x.",
    "requestId": "req_1",
    "details": {
        "causes": [{"field": "spec.x", "reason": "FieldValueNotSupported", "message": "there is no such field"}]
    },
}


def ok(document: Any) -> bytes:
    return answer("200 OK", json.dumps(document))


def lines(*documents: Any) -> str:
    return "".join(json.dumps(d) + "\n" for d in documents)


async def test_what_a_request_carries(stub: Stub) -> None:
    stub.answers = [ok(RUN)]
    async with Client(stub.url, "secret-key", "team one") as client:
        await client.create("agentruns", RUN)
        await client.patch("agentruns", "r", {"spec": {"state": "Cancelled"}})
        await client.list("events", fields="involvedObject.name=r")
    post, patch, events = stub.received
    assert (post.method, post.target) == ("POST", "/apis/nodus.dev/v1/namespaces/team%20one/agentruns")
    assert post.headers["authorization"] == "Bearer secret-key"
    assert post.headers["idempotency-key"]
    assert json.loads(post.body) == RUN
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert events.target.startswith("/apis/nodus.dev/v1/events?fieldSelector=involvedObject.name%3Dr")


async def test_a_refusal_is_an_error_with_causes(stub: Stub) -> None:
    stub.answers = [answer("422 Unprocessable", json.dumps(STATUS))]
    async with Client(stub.url, "k") as client:
        with pytest.raises(ApiError) as caught:
            await client.create("agentruns", RUN)
    error = caught.value
    assert (error.code, error.reason, error.fix, error.request_id) == (422, "Invalid", "Correct spec.x.", "req_1")
    assert [(c.field, c.message) for c in error.causes] == [("spec.x", "there is no such field")]
    assert len(stub.received) == 1


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"[1]", b"\xff\xfe", b""])
async def test_an_error_that_is_no_status(stub: Stub, body: bytes) -> None:
    stub.answers = [answer("502 Bad Gateway", body)]
    async with Client(stub.url, "k") as client:
        with pytest.raises(ApiError, match="the server answered 502") as caught:
            await client.get("agents", "a")
    assert caught.value.reason == "HTTP502"


async def test_a_post_is_repeated_with_the_same_key_when_the_server_asks(stub: Stub) -> None:
    stub.answers = [
        answer("503 Unavailable", "{}", "Retry-After: 0"),
        answer("429 Slow", "{}", "Retry-After: 0"),
        ok(RUN),
    ]
    async with Client(stub.url, "k") as client:
        assert await client.create("agentruns", RUN) == RUN
    keys = {request.headers["idempotency-key"] for request in stub.received}
    assert len(stub.received) == 3
    assert len(keys) == 1


async def test_a_server_that_never_recovers_is_asked_a_bounded_number_of_times(stub: Stub) -> None:
    stub.answers = [answer("503 Unavailable", json.dumps(STATUS | {"reason": "Unavailable"}), "Retry-After: 0")]
    async with Client(stub.url, "k") as client:
        with pytest.raises(ApiError, match="is invalid"):
            await client.get("agents", "a")
    assert len(stub.received) == 10


async def test_5xx_without_retry_after_is_not_repeated(stub: Stub) -> None:
    stub.answers = [answer("500 Error", json.dumps(STATUS))]
    async with Client(stub.url, "k") as client:
        with pytest.raises(ApiError):
            await client.create("agentruns", RUN)
    assert len(stub.received) == 1


async def test_a_read_survives_a_broken_connection_and_a_write_does_not(stub: Stub) -> None:
    stub.answers = [None, ok(RUN)]
    async with Client(stub.url, "k") as client:
        assert await client.get("agentruns", "r") == RUN
        stub.answers = [None]
        with pytest.raises(Unreachable, match="did not answer"):
            await client.create("agentruns", RUN)
    assert [r.method for r in stub.received] == ["GET", "GET", "POST"]


async def test_no_server(free_port: int) -> None:
    async with Client(f"http://127.0.0.1:{free_port}", "k") as client:
        with pytest.raises(Unreachable, match="cannot be reached") as caught:
            await client.get("agents", "a")
    assert "corral up" in caught.value.fix


async def test_an_answer_that_is_not_json(stub: Stub) -> None:
    stub.answers = [answer("200 OK", "<html>")]
    async with Client(stub.url, "k") as client:
        with pytest.raises(Unreachable, match="not a JSON object") as caught:
            await client.get("agents", "a")
    assert "CORRAL_URL" in caught.value.fix


async def test_the_answer_is_waited_for(stub: Stub) -> None:
    pending = answer("503 Unavailable", "{}", "Retry-After: 0")
    stub.answers = [*[pending] * 25, answer("200 OK", "Python 3.11", "Content-Type: text/plain; charset=utf-8")]
    async with Client(stub.url, "k") as client:
        assert await client.answer("r") == "Python 3.11"


async def test_watch_goes_on_after_a_broken_connection(stub: Stub) -> None:
    def event(kind: str, version: int, **extra: Any) -> dict[str, Any]:
        return {"type": kind, "object": {"metadata": {"resourceVersion": str(version)}, **extra}}

    stub.answers = [
        beginning(lines(event("ADDED", 8), event("BOOKMARK", 9)) + '{"type": "MODIFIED", "obj'),
        beginning(lines(event("MODIFIED", 12))),
        beginning(""),
    ]
    async with Client(stub.url, "k") as client, aclosing(client.watch("agentruns", since="7", name="r")) as events:
        found = [await anext(events), await anext(events)]
    assert [(e.type, e.version) for e in found] == [("ADDED", "8"), ("MODIFIED", "12")]
    assert "resourceVersion=7" in stub.received[0].target
    assert "resourceVersion=9" in stub.received[1].target
    assert "fieldSelector=metadata.name%3Dr" in stub.received[1].target


async def test_watch_says_when_changes_are_gone(stub: Stub) -> None:
    stub.answers = [
        beginning(lines({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "gone"}}))
    ]
    async with Client(stub.url, "k") as client, aclosing(client.watch("agentruns", since="7")) as events:
        with pytest.raises(ApiError) as caught:
            await anext(events)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def test_follow_goes_on_and_ends_with_the_run(stub: Stub) -> None:
    def run(phase: str, version: int) -> dict[str, Any]:
        return {"type": "run", "version": version, "object": {"status": {"phase": phase}}}

    separator = {"type": "step", "version": 3, "step": {"key": "a", "text": "a\u2028b\x85c"}}
    stub.answers = [
        beginning(json.dumps(separator, ensure_ascii=False) + "\n" + lines(run("Running", 4))),
        beginning(lines(run("Succeeded", 9), run("Succeeded", 10))),
    ]
    async with Client(stub.url, "k") as client:
        found = [item async for item in client.follow("r")]
    assert [item["version"] for item in found] == [3, 4, 9]
    assert found[0] == separator
    assert "after" not in stub.received[0].target
    assert "after=4" in stub.received[1].target


async def test_a_stream_waits_for_a_server_that_starts_again(stub: Stub) -> None:
    stub.answers = [
        answer("503 Unavailable", "{}", "Retry-After: 0"),
        beginning(lines({"type": "run", "version": 1, "object": {"status": {"phase": "Failed"}}})),
    ]
    async with Client(stub.url, "k") as client:
        with anyio.fail_after(10):
            assert len([item async for item in client.follow("r")]) == 1


async def test_a_proxy_of_the_environment_is_not_used_for_this_machine(
    stub: Stub, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port}")
    stub.answers = [ok(RUN)]
    async with Client(stub.url, "k") as client:
        assert await client.get("agentruns", "r") == RUN
