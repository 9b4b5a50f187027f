"""When requests are repeated: the policies, and a patient client of a real socket."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.sdk import Client
from corral.sdk._retries import LONGEST_WAIT, PATIENT, QUICK, Retries
from corral.sdk.errors import ApiError, InternalError, Invalid, Unavailable, Unreachable
from sdk.stub_server import Stub, answer

RUN = {"kind": "AgentRun", "metadata": {"name": "r"}, "spec": {}}
BUSY = {"reason": "RequestInProgress", "message": "wait"}


def test_what_only_patience_repeats() -> None:
    for error, method in ((Unavailable({}), "GET"), (InternalError({}), "POST"), (Unreachable("gone"), "POST")):
        assert QUICK.pause(error, method, 1, 0, True) is None
        assert PATIENT.pause(error, method, 1, 0, True) is not None


def test_what_nobody_repeats() -> None:
    bad_address = Unreachable("no such protocol")
    bad_address.retryable = False
    for error in (Invalid({}), bad_address):
        assert PATIENT.pause(error, "GET", 1, 0, True) is None


def test_a_server_that_never_answered_is_given_up_soon() -> None:
    assert PATIENT.pause(Unreachable("gone"), "GET", 3, 0, False) is None
    assert PATIENT.pause(Unreachable("gone"), "GET", 3, 0, True) is not None


@given(
    policy=st.sampled_from([QUICK, PATIENT]),
    asked=st.none() | st.floats(0, LONGEST_WAIT),
    attempt=st.integers(1, 200),
    spent=st.floats(0, 1000),
)
def test_waiting_is_bounded(policy: Retries, asked: float | None, attempt: int, spent: float) -> None:
    error = ApiError.told({"reason": "Unavailable"}, code=503, retry_after=asked)
    wait = policy.pause(error, "GET", attempt, spent, True)
    if wait is not None:
        assert 0 <= wait <= LONGEST_WAIT
        assert spent + wait <= 300
        assert asked is None or wait == asked


async def test_a_patient_client_repeats_a_post_with_the_same_key(stub: Stub) -> None:
    ok = answer("200 OK", json.dumps(RUN))
    stub.answers = [ok, None, answer("500 Error", "{}"), answer("409 Conflict", json.dumps(BUSY)), ok]
    async with Client(stub.url, "k", retries=PATIENT) as client:
        await client.get("agentruns", "r")
        assert await client.within("other").create("agentruns", RUN) == RUN
    posts = stub.received[1:]
    assert [r.method for r in posts] == ["POST"] * 4
    assert len({r.headers["idempotency-key"] for r in posts}) == 1
    assert "/namespaces/other/" in posts[0].target


async def test_a_patient_client_does_not_wait_for_a_wrong_address(free_port: int) -> None:
    async with Client(f"http://127.0.0.1:{free_port}", "k", retries=PATIENT) as client:
        with pytest.raises(Unreachable, match="cannot be reached"):
            await client.create("agentruns", RUN)
    async with Client("nonsense://x", "k", retries=PATIENT) as client:
        with pytest.raises(Unreachable):
            await client.get("agentruns", "r")
