"""Answers with many items, written piece by piece, so that the event loop goes on for everybody else meanwhile."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio.lowlevel
from starlette.responses import JSONResponse, Response, StreamingResponse

_PIECE = 200
"""Items that are encoded without a pause."""


def response(shown: dict[str, Any], items: str) -> Response:
    """The document as JSON; the list under the key `items` is its last member if it is long."""
    if len(shown[items]) <= _PIECE:
        return JSONResponse(shown)
    return StreamingResponse(_pieces(shown, items), media_type="application/json")


async def _pieces(shown: dict[str, Any], items: str) -> AsyncIterator[bytes]:
    many = shown.pop(items)
    yield _encoded(shown)[:-1] + f',"{items}":['.encode()
    for start in range(0, len(many), _PIECE):
        comma = b"," if start else b""
        yield comma + _encoded(many[start : start + _PIECE])[1:-1]
        await anyio.lowlevel.checkpoint()
    yield b"]}"


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
