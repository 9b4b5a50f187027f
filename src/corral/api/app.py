"""The application: routes, and what guards them."""

from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from corral import __version__
from corral.kinds import Problem
from corral.verbs.services import Services

from . import auth, discovery, objects, openapi, pages, problems, runs
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


def create_app(services: Services, *, key_digest: str, loopback: bool) -> Starlette:
    """The ASGI application of a server whose operator's key has that SHA-256."""
    services = replace(services, operator_digest=key_digest)
    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        *auth.routes,
        *pages.routes,
        Route("/docs/errors/{reason}", problems.explain),
        *discovery.routes,
        *openapi.routes,
        Route(_PROJECT + "/agentruns/{name}/answer", runs.answer),
        Route(_PROJECT + "/agentruns/{name}/steps", runs.steps),
        Route(_PROJECT + "/agentruns/{name}/messages", runs.messages, methods=["POST"]),
        Route(_PROJECT + "/agentruns/{name}/team", runs.team_view),
        Route(_PROJECT + "/agentruns/{name}/team-controls", runs.team_controls, methods=["POST"]),
    ]
    for root in (_PROJECT, _ROOT):
        routes += [
            Route(root + "/{plural}", objects.collection, methods=["GET", "POST"]),
            Route(root + "/{plural}/{name}", objects.one, methods=["GET", "PUT", "PATCH", "DELETE"]),
        ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, services=services, loopback=loopback)],
        exception_handlers={
            Problem: problems.on_problem,
            HTTPException: problems.on_http,
            Exception: problems.on_fault,
        },
    )
    app.state.services = services
    return app
