"""Collections and objects of every kind, under one set of paths."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from corral.kinds import API_VERSION, Problem, Reason, Resource, parse, scheme
from corral.verbs import objects, patches
from corral.verbs.idempotency import Key
from corral.verbs.listing import Query, listing
from corral.verbs.services import Caller, Services

from . import lists, tables, watch

PATCHES = {
    "application/merge-patch+json": patches.merging,
    "application/json-patch+json": patches.operations,
}


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
    asked = Query(
        cls,
        place,
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        _number(query.get("limit"), "limit"),
        query.get("continue", ""),
    )
    page = await listing(services(request), caller(request), asked)
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.continue_:
        metadata["continue"] = page.continue_
    if tables.wanted(request.headers.get("accept", "")):
        shown = tables.table(cls, page.items)
        shown["metadata"] = metadata
        return lists.response(shown, "rows")
    shown = {"apiVersion": API_VERSION, "kind": f"{cls.__name__}List", "metadata": metadata, "items": page.items}
    return lists.response(shown, "items")


async def one(request: Request) -> Response:
    """GET, PUT, PATCH and DELETE of an object."""
    cls, place, name = kind(request), namespace(request), request.path_params["name"]
    if request.method in ("PUT", "PATCH"):
        return await _change(request, cls)
    if request.method == "DELETE":
        await request.body()
        last = await objects.delete(services(request), caller(request), cls, place, name, if_match=_if_match(request))
        details = {"kind": cls.plural, "name": name, "uid": last["metadata"]["uid"]}
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return JSONResponse(success)
    stored = await objects.get(services(request), caller(request), cls, place, name)
    headers = {"ETag": f'"{stored.version}"'}
    if tables.wanted(request.headers.get("accept", "")):
        return JSONResponse(tables.table(cls, [objects.document(stored)], stored.version), headers=headers)
    return JSONResponse(objects.document(stored), headers=headers)


async def _change(request: Request, cls: type[Resource]) -> Response:
    content = request.headers.get("content-type", "").partition(";")[0].strip()
    if request.method == "PATCH" and content not in PATCHES:
        fix = f"Send {' or '.join(PATCHES)}."
        raise Problem(Reason.UnsupportedMediaType, f"patches of {content!r} are not known", fix=fix)
    how = patches.replacing if request.method == "PUT" else PATCHES[content]
    shown = await objects.change(
        services(request),
        caller(request),
        cls,
        namespace(request),
        request.path_params["name"],
        how(parse(await request.body())),
        dry_run=_dry_run(request),
        if_match=_if_match(request),
    )
    return JSONResponse(shown, headers={"ETag": f'"{shown["metadata"]["resourceVersion"]}"'})


async def _create(request: Request, cls: type[Resource]) -> Response:
    body = await request.body()
    value = request.headers.get("idempotency-key")
    key = Key(caller(request).principal, "POST", request.url.path, value) if value else None
    if "namespace" not in request.path_params and cls.scope == "Project":
        raise Problem(Reason.MethodNotAllowed, f"{cls.plural} are created in a project")
    dry_run = _dry_run(request)
    status, shown = await objects.create(
        services(request),
        caller(request),
        cls,
        namespace(request),
        body,
        None if dry_run else key,
        dry_run=dry_run,
        if_match=_if_match(request),
    )
    tag = objects.etag(shown) if dry_run else shown["metadata"]["resourceVersion"]
    return JSONResponse(shown, status, {"ETag": f'"{tag}"'})


def _dry_run(request: Request) -> bool:
    value = request.query_params.get("dryRun", "")
    if value not in ("", "All"):
        raise Problem(Reason.BadRequest, f"the query parameter dryRun is {value!r}", fix="Send dryRun=All, or none.")
    return value == "All"


def _if_match(request: Request) -> str | None:
    value = request.headers.get("if-match")
    return None if value in (None, "*") else value.strip().removeprefix("W/").strip('"')


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
    await watch.check(services(request), caller(request), asked)
    return StreamingResponse(watch.events(services(request), caller(request), asked), media_type="application/json")


def _number(text: str | None, name: str) -> int | None:
    if not text or (name == "resourceVersion" and text == "0"):
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Problem(Reason.BadRequest, f"the query parameter {name} is {text!r}, which is not a number")
    return int(text) or None
