"""Every refusal becomes a Status with a request id; a fault of ours becomes one that tells nothing of the inside."""

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from corral.kinds import Problem, Reason

log = logging.getLogger(__name__)


def answer(problem: Problem, request_id: str) -> Response:
    """The Status of a refusal, with Retry-After if the problem says when to ask again."""
    headers = {}
    if "retryAfterSeconds" in problem.details:
        headers["Retry-After"] = str(problem.details["retryAfterSeconds"])
    return JSONResponse(problem.status(request_id), problem.reason.code, headers)


async def on_problem(request: Request, error: Exception) -> Response:
    """A verb has refused."""
    if not isinstance(error, Problem):
        raise error
    return answer(error, request_id(request))


async def on_http(request: Request, error: Exception) -> Response:
    """No route fits."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        problem = Problem(Reason.MethodNotAllowed, f"{request.method} is not allowed on {request.url.path}")
    else:
        problem = Problem(Reason.NotFound, f"there is nothing at {request.url.path}")
    return answer(problem, request_id(request))


async def on_fault(request: Request, error: Exception) -> Response:
    """Something that must not happen: logged whole, answered without its inside."""
    identity = request_id(request)
    log.error("request %s failed", identity, exc_info=error)
    problem = Problem(
        Reason.InternalError, "the server failed", fix=f"Its log has the cause under the request id {identity}."
    )
    return answer(problem, identity)


def request_id(request: Request) -> str:
    """The id that the middleware gave the request."""
    state: dict[str, Any] = request.scope.get("state", {})
    return str(state.get("request_id", ""))
