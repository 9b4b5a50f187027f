"""Every refusal becomes a Status with a request id; a fault of ours becomes one that tells nothing of the inside."""

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Scope

from corral.kinds import Problem, Reason
from corral.store import StoreClosed, StoreUnavailable

log = logging.getLogger(__name__)


def answer(problem: Problem, scope: Scope) -> Response:
    """The Status of a refusal, with Retry-After if the problem says when to ask again."""
    docs = f"{HTTPConnection(scope).base_url}docs/errors/{problem.reason.name}"
    headers = {}
    if "retryAfterSeconds" in problem.details:
        headers["Retry-After"] = str(problem.details["retryAfterSeconds"])
    return JSONResponse(problem.status(request_id(scope), docs), problem.reason.code, headers)


async def explain(request: Request) -> Response:
    """What a reason means, as a page of text."""
    name = request.path_params["reason"]
    if name not in Reason.__members__:
        raise Problem(Reason.NotFound, f"there is no reason {name!r}", fix=f"They are {', '.join(Reason.__members__)}.")
    reason = Reason[name]
    return PlainTextResponse(f"{reason.name} (HTTP {reason.code})\n\n{reason.meaning}\n")


async def on_problem(request: Request, error: Exception) -> Response:
    """A verb has refused."""
    if not isinstance(error, Problem):
        raise error
    return answer(error, request.scope)


async def on_http(request: Request, error: Exception) -> Response:
    """No route fits."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        problem = Problem(Reason.MethodNotAllowed, f"{request.method} is not allowed on {request.url.path}")
    else:
        problem = Problem(Reason.NotFound, f"there is nothing at {request.url.path}")
    return answer(problem, request.scope)


async def on_fault(request: Request, error: Exception) -> Response:
    """The database is away, or something that must not happen: logged whole, answered without its inside."""
    identity = request_id(request.scope)
    log.error("request %s failed", identity, exc_info=error)
    if isinstance(error, StoreUnavailable | StoreClosed):
        fix = "Nothing was written; ask again in a moment."
        problem = Problem(
            Reason.Unavailable, "the database cannot be reached", fix=fix, details={"retryAfterSeconds": 1}
        )
    else:
        fix = f"Its log has the cause under the request id {identity}."
        problem = Problem(Reason.InternalError, "the server failed", fix=fix)
    return answer(problem, request.scope)


def request_id(scope: Scope) -> str:
    """The id that the middleware gave the request."""
    state: dict[str, Any] = scope.get("state", {})
    return str(state.get("request_id", ""))
