"""What the OpenAPI document says of one operation, and the parameters that many operations have.

Statuses are named by the reasons of `kinds.Reason`, so that a reader learns which refusals an operation has, and
programs which codes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from corral.kinds import API_VERSION, Reason

from .schemas import identity, ref

ROOT = f"/apis/{API_VERSION}"
PROJECT = f"{ROOT}/namespaces/{{namespace}}"
JSON = "application/json"
TEXT = "text/plain"
ALWAYS = (Reason.BadRequest, Reason.Unauthorized, Reason.Forbidden, Reason.RequestEntityTooLarge)
_WORD = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}

Operation = dict[str, Any]


def operation(
    name: str,
    text: str,
    *,
    answers: Mapping[int, Any],
    refusals: Iterable[Reason] = (),
    parameters: Iterable[dict[str, Any]] = (),
    body: Mapping[str, Any] | None = None,
    kind: str = "",
    action: str = "",
    open_to_all: bool = False,
) -> Operation:
    """An operation. `answers` and `body` map to content, `refusals` are besides those that every request may get."""
    shown: Operation = {"operationId": name, "summary": text}
    if kind:
        shown |= {"tags": [kind], "x-kubernetes-action": action, "x-kubernetes-group-version-kind": identity(kind)}
    if open_to_all:
        shown["security"] = []
    if parameters := list(parameters):
        shown["parameters"] = parameters
    if body is not None:
        shown["requestBody"] = {"required": True, "content": body}
    always = [reason for reason in ALWAYS if not (open_to_all and reason is Reason.Unauthorized)]
    shown["responses"] = {
        **{str(code): content for code, content in answers.items()},
        **_refused([*always, *refusals]),
    }
    return shown


def content(text: str, schema: Mapping[str, Any], media_type: str = JSON) -> dict[str, Any]:
    """An answer with a body of that schema."""
    return {"description": text, "content": {media_type: {"schema": schema}}}


def tagged(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """An answer with an object, and the ETag of its state."""
    return content(text, schema) | {"headers": TAG}


def _refused(reasons: Iterable[Reason]) -> dict[str, Any]:
    by_code: dict[int, list[str]] = {}
    for reason in reasons:
        by_code.setdefault(reason.code, []).append(reason.name)
    return {
        str(code): content(f"Refused: {', '.join(dict.fromkeys(names))}.", ref("Status"))
        for code, names in sorted(by_code.items())
    }


def parameter(name: str, text: str, where: str = "query", **schema: Any) -> dict[str, Any]:
    """A parameter; text unless it has a schema."""
    shown = {"name": name, "in": where, "description": text, "schema": schema or {"type": "string"}}
    return shown | {"required": True} if where == "path" else shown


NAMESPACE = parameter("namespace", "The project.", "path", **_WORD)
NAME = parameter("name", "The name of the object.", "path", **_WORD)
KEY = parameter(
    "Idempotency-Key",
    "A request that is repeated with the same key within 24 hours gets the first answer and has no second effect.",
    "header",
)
TRY = parameter(
    "dryRun", "`All`: check everything and answer what would be, but keep nothing.", type="string", enum=["All"]
)
MATCH = parameter(
    "If-Match", "The ETag of an answer: refuse with 412 if the object, or what it would be, is another now.", "header"
)
TAG = {"ETag": {"description": "Stands for this state of the object; see If-Match.", "schema": {"type": "string"}}}
SELECT = (
    parameter("labelSelector", "Only objects with these labels, such as `team=search,!old`."),
    parameter("fieldSelector", "Only objects with these values, such as `status.phase!=Failed`."),
)
LIST = (
    *SELECT,
    parameter("limit", "At most this many objects; 0 for all.", type="integer", minimum=0),
    parameter("continue", "The next page: `metadata.continue` of the page before."),
    parameter("watch", "Stream changes as WatchEvents, one a line, until the client goes.", type="boolean"),
    parameter("resourceVersion", "Watch from after this version; without it, what exists comes first."),
    parameter("allowWatchBookmarks", "In a quiet watch, say now and then how far it is.", type="boolean"),
)
