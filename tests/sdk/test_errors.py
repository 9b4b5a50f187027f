"""The class of an error, what it carries, and that it survives a process border."""

import pickle
from typing import Any

import pytest

from corral.sdk import errors


@pytest.mark.parametrize(
    ("status", "code", "cls"),
    [
        ({"reason": "AgentStopped"}, 409, errors.AgentStopped),
        ({"reason": "AlreadyExists"}, 409, errors.AlreadyExists),
        ({"reason": "Expired"}, 410, errors.Expired),
        ({"reason": "FromTheFuture"}, 409, errors.Conflict),
        ({"reason": "FromTheFuture"}, 503, errors.Unavailable),
        ({"reason": "FromTheFuture"}, 418, errors.ApiError),
        ({}, 404, errors.NotFound),
        ({"code": 422}, 0, errors.Invalid),
    ],
)
def test_the_class_follows_from_the_reason_then_from_the_code(
    status: dict[str, Any], code: int, cls: type[errors.ApiError]
) -> None:
    error = errors.ApiError.told(status, code=code)
    assert type(error) is cls
    assert error.status == error.code == (code or 422)
    assert isinstance(error, errors.CorralError)


def test_what_may_pass_is_retryable() -> None:
    retryable = {name for name, value in vars(errors).items() if getattr(value, "retryable", False)}
    passing = {"RequestInProgress", "TooManyRequests", "InternalError", "Unavailable"}
    assert retryable == passing | {"Unreachable", "APIConnectionError"}


def test_an_error_tells_all_it_knows() -> None:
    details = {
        "causes": [{"field": "spec.x", "message": "is wrong", "reason": "FieldValueInvalid"}, "not a cause"],
        "missingScope": "agents:write",
        "diff": {"spec.system": {"have": "a", "want": "b"}},
    }
    told = {"message": "no", "fix": "Say yes.", "requestId": "req_1", "details": details}
    error = errors.ApiError.told(told, code=403)
    assert str(error) == "no\n  spec.x: is wrong\nfix: Say yes."
    assert isinstance(error, errors.Forbidden)
    assert (error.request_id, error.missing_scope) == ("req_1", "agents:write")
    taken = errors.ApiError.told(told | {"reason": "AlreadyExists"}, code=409)
    assert isinstance(taken, errors.AlreadyExists)
    assert taken.diff["spec.system"]["want"] == "b"
    assert errors.AlreadyExists({"details": {"diff": 1}}).diff == {}


def test_errors_can_be_pickled() -> None:
    status = {"reason": "Invalid", "message": "no", "details": {"causes": [{"field": "f", "message": "m"}]}}
    error = pickle.loads(pickle.dumps(errors.ApiError.told(status, code=422, retry_after=2.0)))
    assert (type(error), error.causes[0].field, error.retry_after) == (errors.Invalid, "f", 2.0)
    failed = pickle.loads(pickle.dumps(errors.AgentRunFailed("r", {"phase": "Failed", "reason": "MaxCostReached"})))
    assert (failed.run, failed.reason, str(failed)) == ("r", "MaxCostReached", "the run 'r' is Failed (MaxCostReached)")


def test_errors_of_python_are_caught_too() -> None:
    assert issubclass(errors.TimedOut, TimeoutError)
    assert issubclass(errors.UsageError, ValueError)
