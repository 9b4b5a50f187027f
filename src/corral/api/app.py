"""The application: routes, and what guards them."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from corral import __version__
from corral.kinds import Problem
from corral.verbs.services import Services

from . import discovery, objects, openapi, problems, runs
from .guard import Guard

_ROOT = "/apis/nodus.dev/v1"
_PROJECT = _ROOT + "/namespaces/{namespace}"


async def healthz(request: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """The database answers too."""
    async with objects.services(request).store.read():
        return PlainTextResponse("ok\n", headers={"X-Nodus-Release": __version__})


async def whoami(request: Request) -> Response:
    """Who the key speaks for."""
    return JSONResponse(
        {
            "kind": "User",
            "user": objects.caller(request).user,
            "email": "",
            "org": "local",
            "orgName": "local",
            "role": "Owner",
            "projects": ["default"],
            "scopes": ["*"],
        }
    )


def create_app(services: Services, *, key_digest: str, loopback: bool) -> Starlette:
    """The ASGI application of a server whose key has that SHA-256."""
    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/auth/whoami", whoami),
        *discovery.routes,
        *openapi.routes,
        Route(_PROJECT + "/agentruns/{name}/answer", runs.answer),
        Route(_PROJECT + "/agentruns/{name}/steps", runs.steps),
        Route(_PROJECT + "/agentruns/{name}/messages", runs.messages, methods=["POST"]),
    ]
    for root in (_PROJECT, _ROOT):
        routes += [
            Route(root + "/{plural}", objects.collection, methods=["GET", "POST"]),
            Route(root + "/{plural}/{name}", objects.one, methods=["GET", "PUT", "PATCH", "DELETE"]),
        ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, key_digest=key_digest, loopback=loopback)],
        exception_handlers={
            Problem: problems.on_problem,
            HTTPException: problems.on_http,
            Exception: problems.on_fault,
        },
    )
    app.state.services = services
    return app
