"""The server does what its OpenAPI document says: Schemathesis makes up requests from it and checks the answers."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from corral.api import openapi
from corral.kinds._meta import NAME
from house import House, house

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ENDLESS = ("watch", "follow")
"""With these, an answer has no end, so there would be nothing to check."""


ROOT = "/apis/nodus.dev/v1"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
ONLY_BYOK = ("protocol", "apiKeySecret", "apiKeyField", "baseURL")
NAMES = ("one", "two", "three")
PARAMETERS = {
    "namespace": ["default"],
    "name": ["one", "two", "nothing"],
    "If-Match": ["*", "1"],
}


def narrowed() -> dict[str, Any]:
    """The document with few values for names, so that requests meet objects, and without the key, which all get."""
    document = deepcopy(openapi.document())
    del document["security"]
    for operations in document["paths"].values():
        for operation in operations.values():
            parameters = [p for p in operation.get("parameters", []) if p["name"] not in ENDLESS]
            for parameter in parameters:
                if parameter["name"] in PARAMETERS:
                    parameter["schema"] = {"type": "string", "enum": PARAMETERS[parameter["name"]]}
            operation["parameters"] = parameters
    return document


def aim(case: schemathesis.Case) -> None:
    """Turn what is well-formed, but fits nothing, into what fits: names, keys, and fields that exclude each other."""
    case.body = body = deepcopy(case.body)
    if not isinstance(body, dict):
        return
    metadata, spec = ({**part} if isinstance(part := body.get(name), dict) else {} for name in ("metadata", "spec"))
    named = (case.path_parameters or {}).get("name") or NAMES[len(json.dumps(body)) % len(NAMES)]
    for fields, field, value in (
        (metadata, "namespace", "default"),
        (metadata, "name", named),
        (spec, "agent", "one"),
        (spec, "publicKey", PUBLIC_KEY),
    ):
        if isinstance(fields.get(field), str) and (re.fullmatch(NAME, fields[field]) or field == "publicKey"):
            fields[field] = value
    if spec.get("input", "") in (None, ""):
        spec.pop("input", None)
        spec |= {"input": "Say hi. [[fake:tool_calls=0]]"} if "agent" in spec else {}
    if isinstance(spec.get("scopes"), list):
        spec["scopes"] = ["*:read"]
    if isinstance(spec.get("model"), dict):
        spec["model"] = {name: value for name, value in spec["model"].items() if name not in ONLY_BYOK}
    body |= {name: part for name, part in (("metadata", metadata), ("spec", spec)) if part}


schema = schemathesis.openapi.from_dict(narrowed())


@dataclass(frozen=True)
class Server:
    url: str
    authorization: str


async def furnish(running: House) -> None:
    """Have an object of each kind, which the requests of the test before may have deleted."""
    await running.agent("one")
    await running.client.post(f"{ROOT}/projects", json={"metadata": {"name": "one"}})
    await running.client.post(f"{ROOT}/apikeys", json={"metadata": {"name": "one"}, "spec": {"scopes": ["*:read"]}})
    await running.client.post(f"{ROOT}/sshkeys", json={"metadata": {"name": "one"}, "spec": {"publicKey": PUBLIC_KEY}})
    await running.post("secrets", {"metadata": {"name": "one"}, "spec": {"stringData": {"k": "v"}}})
    for name, keep in (("one", True), ("two", False)):
        spec = {"agent": "one", "input": "Say hi. [[fake:tool_calls=0]]", "keepAlive": keep}
        await running.post("agentruns", {"metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BlockingPortal, House]]:
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(house(tmp_path_factory.mktemp("fuzz") / "home")) as here:
            yield portal, here


@pytest.fixture
def server(running: tuple[BlockingPortal, House]) -> Server:
    portal, here = running
    portal.call(furnish, here)
    return Server(str(here.client.base_url), here.client.headers["Authorization"])


def checked(operation: str) -> Callable[..., None]:
    """The test of one operation."""

    def test(case: schemathesis.Case, server: Server) -> None:
        aim(case)
        headers = {"Authorization": server.authorization}
        case.call_and_validate(base_url=server.url, checks=CHECKS, headers=headers, timeout=60)

    test.__name__ = test.__qualname__ = f"test_{operation}_answers_as_documented"
    bounded = settings(
        max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    made: Callable[..., None] = schema.include(operation_id=operation).parametrize()(bounded(test))
    return made


def operations() -> list[str]:
    """The ids of all operations of the document."""
    paths = openapi.document()["paths"].values()
    return sorted(operation["operationId"] for path in paths for operation in path.values())


# A name for each: what spreads tests over processes tells them apart by it.
for _operation in operations():
    globals()[f"test_{_operation}_answers_as_documented"] = checked(_operation)
