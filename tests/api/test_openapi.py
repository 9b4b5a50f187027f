"""The OpenAPI document: served so that it can be cached, whole, and the same as the kinds and the routes."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.routing import Match, Route

from corral.api import discovery, openapi, pages, schemas
from corral.api.app import create_app
from corral.kinds import Resource, scheme
from corral.verbs.services import Services
from house import House, house

DOCUMENT = openapi.document()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    (path, method, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
UNDOCUMENTED = {route.path for route in (*openapi.routes, *pages.routes)}
"""The document itself, and pages for people."""
GENERIC = "{plural}"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home") as running:
        yield running


def routes() -> list[Route]:
    services = Services(**{field.name: None for field in fields(Services)})  # type: ignore[arg-type]
    app = create_app(services, key_digest="", loopback=True)
    return [route for route in app.routes if isinstance(route, Route)]


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document."""
    if isinstance(node, dict):
        yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(value)


async def test_the_index_leads_to_a_document_that_can_be_kept(here: House) -> None:
    index = (await here.client.get("/openapi/v3")).json()
    address = index["paths"]["apis/nodus.dev/v1"]["serverRelativeURL"]
    kept = await here.client.get(address)
    assert kept.json() == DOCUMENT
    assert "immutable" in kept.headers["cache-control"]
    for path in ("/openapi/v3/apis/nodus.dev/v1", "/openapi/v3/apis/nodus.dev/v1?hash=0123"):
        asked = await here.client.get(path)
        assert (asked.content, asked.headers["cache-control"]) == (kept.content, "private, no-cache")
    again = await here.client.get(asked.url, headers={"If-None-Match": asked.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await here.client.get(asked.url, headers={"If-None-Match": '"0123"'})
    assert other.status_code == 200


async def test_it_asks_for_the_key(here: House) -> None:
    """And so does every operation that does not say otherwise."""
    for path, method, operation in [("/openapi/v3", "get", {}), *OPERATIONS]:
        place = path.format(namespace="default", name="x", reason="Invalid")
        answer = await here.client.request(method, place, headers={"Authorization": ""})
        assert (answer.status_code == 401) == (operation.get("security") != []), (path, method)


def test_every_documented_operation_has_a_route() -> None:
    served = routes()
    for path, method, _ in OPERATIONS:
        scope = {"type": "http", "path": path.format(namespace="p", name="n", reason="r"), "method": method.upper()}
        assert any(route.matches(scope)[0] is Match.FULL for route in served), (path, method)


def test_every_route_is_documented() -> None:
    documented = {(path, method.upper()) for path, method, _ in OPERATIONS}
    for route in routes():
        if GENERIC not in route.path and route.path not in UNDOCUMENTED:
            for method in (route.methods or set()) - {"HEAD"}:
                assert (route.path, method) in documented


def test_references_lead_somewhere_and_names_are_unique() -> None:
    prefix = schemas.REF.format(model="")
    references = {node["$ref"] for node in nodes(DOCUMENT) if "$ref" in node}
    assert references
    assert not {reference for reference in references if reference.removeprefix(prefix) not in SCHEMAS}
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names))


def test_placeholders_and_parameters_are_the_same() -> None:
    for path, method, operation in OPERATIONS:
        declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert declared == {part.strip("{}") for part in path.split("/") if part.startswith("{")}, (path, method)


@pytest.mark.parametrize("cls", list(scheme), ids=lambda cls: cls.__name__)
def test_a_kind_is_documented_as_it_is_declared(cls: type[Resource]) -> None:
    shown = SCHEMAS[cls.__name__]
    identity = {"group": "nodus.dev", "version": "v1", "kind": cls.__name__}
    assert shown["x-kubernetes-group-version-kind"] == [identity]
    assert shown["description"] == cls.__doc__
    assert set(shown["properties"]) == {field.alias for field in cls.model_fields.values()}
    assert shown["properties"]["kind"]["enum"] == [cls.__name__]
    assert shown.get("x-nodus-mcp", {}) == discovery.mcp(cls)
    root = "/apis/nodus.dev/v1" + ("/namespaces/{namespace}" if cls.scope == "Project" else "")
    operations = DOCUMENT["paths"][f"{root}/{cls.plural}"]
    assert operations["get"]["x-kubernetes-group-version-kind"] == identity
    assert ("post" in operations) == cls.writable


@pytest.mark.parametrize("cls", list(scheme), ids=lambda cls: cls.__name__)
def test_schemas_are_plain_enough_to_be_printed(cls: type[Resource]) -> None:
    """Each field has a type or a reference, optional or not; its docstring is its description."""

    def check(model: type[BaseModel], shown: dict[str, Any]) -> None:
        for field in model.model_fields.values():
            property_ = shown["properties"][field.alias]
            assert "anyOf" not in property_, (model, field.alias)
            assert "title" not in property_
            assert property_.get("default", "") is not None
            if field.description:
                assert property_["description"] == field.description
            if "$ref" in property_:
                name = property_["$ref"].rpartition("/")[2]
                assert property_["description"] in (field.description, SCHEMAS[name]["description"])
                inner = next((part for part in parts(field.annotation) if part.__name__ == name), None)
                if inner is not None:
                    check(inner, SCHEMAS[name])

    check(cls, SCHEMAS[cls.__name__])


def parts(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from parts(inner)


def test_what_only_the_server_writes_is_read_only() -> None:
    assert SCHEMAS["AgentRun"]["properties"]["status"]["readOnly"] is True
    assert SCHEMAS["AgentRunSpec"]["required"] == ["agent", "input"]
    assert SCHEMAS["AgentSpec"]["properties"]["perRunMaxCostUSD"]["type"] == "string"
    assert SCHEMAS["SecretSpec"]["properties"]["stringData"]["additionalProperties"] == {"type": "string"}
