"""Collections and objects of every kind, under one set of paths."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from corral.kinds import API_VERSION, Problem, Reason, Resource, parse, scheme
from corral.verbs import objects
from corral.verbs.idempotency import Key
from corral.verbs.services import Caller, Services

from . import tables, watch

MERGE_PATCH = "application/merge-patch+json"


def services(request: Request) -> Services:
    """What the verbs of this server work with."""
    found: Services = request.app.state.services
    return found


def caller(request: Request) -> Caller:
    """Who asks."""
    found: Caller = request.scope["state"]["caller"]
    return found


def kind(request: Request) -> type[Resource]:
    """The kind that the path names. Raises Problem NotFound."""
    plural = request.path_params["plural"]
    found = next((cls for cls in scheme if cls.plural == plural), None)
    project = "namespace" in request.path_params
    if found is None or (project and found.scope == "Org"):
        raise Problem(Reason.NotFound, f"there is no collection at {request.url.path}")
    return found


def namespace(request: Request) -> str:
    """The project of the path; empty for kinds of the organisation."""
    return str(request.path_params.get("namespace", ""))


async def collection(request: Request) -> Response:
    """GET lists or watches, POST creates."""
    cls = kind(request)
    if request.method == "POST":
        return await _create(request, cls)
    query = request.query_params
    place = request.path_params.get("namespace", "" if cls.scope == "Org" else None)
    if query.get("watch") in ("true", "1"):
        return await _watch(request, cls, place)
    page = await objects.listing(
        services(request),
        cls,
        place,
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=_number(query.get("limit"), "limit"),
        continue_=query.get("continue", ""),
    )
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.continue_:
        metadata["continue"] = page.continue_
    if tables.wanted(request.headers.get("accept", "")):
        shown = tables.table(cls, page.items, page.version)
        shown["metadata"] = metadata
        return JSONResponse(shown)
    return JSONResponse(
        {"apiVersion": API_VERSION, "kind": f"{cls.__name__}List", "metadata": metadata, "items": page.items}
    )


async def one(request: Request) -> Response:
    """GET, PATCH and DELETE of an object."""
    cls, place, name = kind(request), namespace(request), request.path_params["name"]
    if request.method == "PATCH":
        content = request.headers.get("content-type", "").partition(";")[0].strip()
        if content != MERGE_PATCH:
            raise Problem(
                Reason.UnsupportedMediaType, f"patches of {content!r} are not known", fix=f"Send {MERGE_PATCH}."
            )
        change = parse(await request.body())
        return JSONResponse(await objects.patch(services(request), caller(request), cls, place, name, change))
    if request.method == "DELETE":
        await request.body()
        last = await objects.delete(services(request), caller(request), cls, place, name)
        details = {"kind": cls.plural, "name": name, "uid": last["metadata"]["uid"]}
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return JSONResponse(success)
    stored = await objects.get(services(request), cls, place, name)
    if tables.wanted(request.headers.get("accept", "")):
        return JSONResponse(tables.table(cls, [objects.document(stored)], stored.version))
    return JSONResponse(objects.document(stored))


async def _create(request: Request, cls: type[Resource]) -> Response:
    body = await request.body()
    value = request.headers.get("idempotency-key")
    key = Key(caller(request).user, "POST", request.url.path, value) if value else None
    if "namespace" not in request.path_params and cls.scope == "Project":
        raise Problem(Reason.MethodNotAllowed, f"{cls.plural} are created in a project")
    status, shown = await objects.create(services(request), caller(request), cls, namespace(request), body, key)
    return JSONResponse(shown, status)


async def _watch(request: Request, cls: type[Resource], place: str | None) -> Response:
    query = request.query_params
    asked = watch.Watch(
        cls,
        place,
        _number(query.get("resourceVersion"), "resourceVersion"),
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        bookmarks=query.get("allowWatchBookmarks") in ("true", "1"),
        as_table=tables.wanted(request.headers.get("accept", "")),
    )
    await watch.check(services(request), asked)
    return StreamingResponse(watch.events(services(request), asked), media_type="application/json")


def _number(text: str | None, name: str) -> int | None:
    if not text or (name == "resourceVersion" and text == "0"):
        return None
    if not text.isdigit() or len(text) > 18:
        raise Problem(Reason.BadRequest, f"the query parameter {name} is {text!r}, which is not a number")
    return int(text) or None
