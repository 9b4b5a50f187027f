"""Discovery: which kinds the server has and what can be done with them, as Kubernetes clients ask before anything else.

The paths and bodies are those of Kubernetes' APIGroupList and APIResourceList. The `x-nodus-mcp-*` members tell a
client that offers the API to models over MCP which of its tools fit a kind. All of it follows from the kinds.
"""

from collections.abc import Iterator
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from corral.kinds import API_VERSION, Resource, scheme

GROUP, VERSION = API_VERSION.split("/")
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch", "update")


def verbs(cls: type[Resource]) -> list[str]:
    """What clients can do with objects of the kind."""
    return sorted(READ + WRITE if cls.writable else READ)


def states(cls: type[Resource]) -> list[str]:
    """What clients can set `spec.state` to; empty for kinds without it."""
    spec = cls.model_fields.get("spec")
    state = getattr(spec.annotation, "model_fields", {}).get("state") if spec else None
    return list(get_args(state.annotation)) if state else []


def mcp(cls: type[Resource]) -> dict[str, list[str]]:
    """The MCP tools of the kind, and the states and records they take."""
    found = {
        "tools": list(cls.tools),
        "states": states(cls) if "set_state" in cls.tools else [],
        "records": [part.name for part in cls.subresources if part.verb == "create"],
    }
    return {name: values for name, values in found.items() if values}


def entries(cls: type[Resource]) -> Iterator[dict[str, Any]]:
    """The kind, and each of its subresources, as APIResources."""
    place = {"namespaced": cls.scope == "Project", "kind": cls.__name__}
    yield {
        "name": cls.plural,
        "singularName": cls.__name__.lower(),
        "shortNames": list(cls.short),
        **place,
        "verbs": verbs(cls),
        "categories": list(cls.categories),
        **{f"x-nodus-mcp-{name}": values for name, values in mcp(cls).items()},
    }
    for part in cls.subresources:
        yield {"name": f"{cls.plural}/{part.name}", "singularName": "", **place, "verbs": [part.verb]}


def group() -> dict[str, Any]:
    """The one group of the server, with its one version."""
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


async def core(request: Request) -> Response:
    """The versions of Kubernetes' own nameless group: none."""
    return JSONResponse({"kind": "APIVersions", "versions": []})


async def groups(request: Request) -> Response:
    """APIGroupList."""
    return JSONResponse({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]})


async def one_group(request: Request) -> Response:
    """APIGroup."""
    return JSONResponse({"kind": "APIGroup", "apiVersion": "v1", **group()})


async def resources(request: Request) -> Response:
    """APIResourceList."""
    listed = [entry for cls in sorted(scheme, key=lambda cls: cls.plural) for entry in entries(cls)]
    shown = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": listed}
    return JSONResponse(shown)


routes = [
    Route("/api", core),
    Route("/apis", groups),
    Route(f"/apis/{GROUP}", one_group),
    Route(f"/apis/{API_VERSION}", resources),
]
