"""The OpenAPI document, made once from the kinds, and served as Kubernetes serves its own: an index, and a document
for each group and version, whose address in the index changes with its content."""

import json
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from corral import __version__
from corral.base import ids
from corral.kinds import API_VERSION

from . import paths, schemas

INDEX = "/openapi/v3"
PATH = f"{INDEX}/apis/{API_VERSION}"


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document of the whole server."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Corral",
            "version": __version__,
            "description": "Agents, their runs, and what they need, as objects of a Kubernetes-style API.",
        },
        "security": [{"key": []}],
        "paths": paths.paths(),
        "components": {
            "schemas": schemas.components(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of the server."}},
        },
    }


@cache
def encoded() -> tuple[bytes, str]:
    """The document's bytes and their SHA-256. The kinds do not change while the process lives."""
    body = json.dumps(document(), separators=(",", ":")).encode()
    return body, ids.digest(body)


async def index(request: Request) -> Response:
    """Where the document is."""
    address = f"{PATH}?hash={encoded()[1]}"
    return JSONResponse({"paths": {f"apis/{API_VERSION}": {"serverRelativeURL": address}}})


async def one(request: Request) -> Response:
    """The document; 304 for a client that has it."""
    body, digest = encoded()
    etag = f'"{digest}"'
    # An address with a hash never has another content; without one, the client asks each time.
    kept = request.query_params.get("hash") == digest
    headers = {"ETag": etag, "Cache-Control": "private, max-age=31536000, immutable" if kept else "private, no-cache"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


routes = [Route(INDEX, index), Route(PATH, one)]
