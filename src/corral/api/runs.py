"""Subresources of runs: answer, steps, messages."""

import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from corral.kinds import Cause, Problem, Reason, parse
from corral.kinds.agentrun import MessageRequest
from corral.verbs import runs

from .objects import namespace, services


async def answer(request: Request) -> Response:
    """The text of the latest answer."""
    text = await runs.answer(services(request), namespace(request), request.path_params["name"])
    return PlainTextResponse(text)


async def steps(request: Request) -> Response:
    """What the run did; with `follow=true`, as a stream until it has ended."""
    place, name = namespace(request), request.path_params["name"]
    text = request.query_params.get("after", "")
    after = int(text) if text.isdigit() and len(text) <= 18 else -1
    if request.query_params.get("follow") not in ("true", "1"):
        return JSONResponse(await runs.steps(services(request), place, name, after=after))
    stream = runs.follow(services(request), place, name, after=after)
    # The first event is fetched here, so that an unknown run is a 404 and not a broken stream.
    first = await anext(stream, None)
    return StreamingResponse(_lines(first, stream), media_type="application/x-ndjson")


async def messages(request: Request) -> Response:
    """Send a message to the run."""
    body = await request.body()
    parse(body)
    try:
        message = MessageRequest.model_validate_json(body, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        causes = [
            Cause(field=".".join(map(str, e["loc"])), reason="FieldValueInvalid", message=e["msg"])
            for e in error.errors(include_url=False, include_input=False)
        ]
        text = "; ".join(f"{c.field}: {c.message}" for c in causes)
        fix = 'Send {"payload": "...", "messageKey": "..."}.'
        raise Problem(Reason.Invalid, f"the message is invalid: {text}", fix=fix, causes=causes) from None
    receipt = await runs.send(services(request), namespace(request), request.path_params["name"], message)
    return JSONResponse(receipt, 202)


async def _lines(first: dict[str, Any] | None, stream: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    if first is not None:
        yield json.dumps(first).encode() + b"\n"
    async for event in stream:
        yield json.dumps(event).encode() + b"\n"
