"""Subresources of runs: answer, steps, messages, team."""

import json
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from corral.kinds import Cause, Problem, Reason, Spec, parse
from corral.kinds.agentrun import MessageRequest
from corral.verbs import runs, team

from .objects import caller, namespace, services

Part = TypeVar("Part", bound=Spec)


async def answer(request: Request) -> Response:
    """The text of the latest answer."""
    text = await runs.answer(services(request), caller(request), namespace(request), request.path_params["name"])
    return PlainTextResponse(text)


async def steps(request: Request) -> Response:
    """What the run did; with `follow=true`, as a stream until it has ended."""
    place, name = namespace(request), request.path_params["name"]
    text = request.query_params.get("after", "")
    after = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1
    if request.query_params.get("follow") not in ("true", "1"):
        return JSONResponse(await runs.steps(services(request), caller(request), place, name, after=after))
    stream = runs.follow(services(request), caller(request), place, name, after=after)
    # The first event is fetched here, so that an unknown run is a 404 and not a broken stream.
    first = await anext(stream, None)
    return StreamingResponse(_lines(first, stream), media_type="application/x-ndjson")


async def messages(request: Request) -> Response:
    """Send a message to the run."""
    message = await _decoded(request, MessageRequest, 'Send {"payload": "...", "messageKey": "..."}.')
    place, name = namespace(request), request.path_params["name"]
    repeated = request.headers.get("idempotency-key", "")
    receipt = await runs.send(services(request), caller(request), place, name, message, repeated)
    return JSONResponse(receipt, 202)


async def team_view(request: Request) -> Response:
    """The run's subtasks."""
    place, name = namespace(request), request.path_params["name"]
    return JSONResponse(await team.view(services(request), caller(request), place, name))


async def team_controls(request: Request) -> Response:
    """Retry, redirect or cancel a subtask."""
    fix = 'Send {"taskId": "...", "action": "Retry", "requestKey": "..."}.'
    control = await _decoded(request, team.ControlRequest, fix)
    place, name = namespace(request), request.path_params["name"]
    return JSONResponse(await team.control(services(request), caller(request), place, name, control), 202)


async def _decoded(request: Request, cls: type[Part], fix: str) -> Part:
    """The body, as strictly as objects are decoded. Raises Problem."""
    body = await request.body()
    parse(body)
    try:
        return cls.model_validate_json(body, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        causes = [
            Cause(field=".".join(map(str, e["loc"])), reason="FieldValueInvalid", message=e["msg"])
            for e in error.errors(include_url=False, include_input=False)
        ]
        text = "; ".join(f"{c.field}: {c.message}" for c in causes)
        raise Problem(Reason.Invalid, f"the body is invalid: {text}", fix=fix, causes=causes) from None


async def _lines(first: dict[str, Any] | None, stream: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    if first is not None:
        yield json.dumps(first).encode() + b"\n"
    async for event in stream:
        yield json.dumps(event).encode() + b"\n"
