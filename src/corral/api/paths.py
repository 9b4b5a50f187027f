"""The paths of the OpenAPI document. Those of the kinds follow from the kinds, like the routes do."""

from typing import Any

from corral.kinds import Reason, Resource, scheme

from . import endpoints, subresources
from .operations import (
    JSON,
    KEY,
    LIST,
    MATCH,
    NAME,
    NAMESPACE,
    PROJECT,
    ROOT,
    TRY,
    Operation,
    content,
    operation,
    tagged,
)
from .schemas import ref

_WRITE = (
    Reason.AlreadyExists,
    Reason.Conflict,
    Reason.AgentStopped,
    Reason.IdempotencyKeyReused,
    Reason.PreconditionFailed,
    Reason.Invalid,
    Reason.Unsupported,
)
_CHANGE = (
    Reason.Conflict,
    Reason.FieldImmutable,
    Reason.AgentRunFinished,
    Reason.PreconditionFailed,
    Reason.Invalid,
    Reason.Unsupported,
)


def paths() -> dict[str, dict[str, Operation]]:
    """Every path with its operations."""
    found: dict[str, dict[str, Operation]] = {}
    for cls in sorted(scheme, key=lambda cls: cls.plural):
        found |= _of_kind(cls)
    return found | subresources.paths | endpoints.paths


def _of_kind(cls: type[Resource]) -> dict[str, dict[str, Operation]]:
    root = PROJECT if cls.scope == "Project" else ROOT
    place = [NAMESPACE] if cls.scope == "Project" else []
    collection, one = {"get": _list(cls, "", place)}, {"get": _read(cls, place)}
    if cls.writable:
        collection["post"] = _create(cls, place)
        one |= {"put": _replace(cls, place), "patch": _patch(cls, place), "delete": _delete(cls, place)}
    found = {f"{root}/{cls.plural}": collection, f"{root}/{cls.plural}/{{name}}": one}
    if cls.scope == "Project":
        found[f"{ROOT}/{cls.plural}"] = {"get": _list(cls, "InAllProjects", [])}
    return found


def _list(cls: type[Resource], suffix: str, place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    shown = {"anyOf": [ref(f"{kind}List"), ref("Table"), ref("WatchEvent")]}
    text = "The objects; a Table if Accept asks for one; with `watch`, WatchEvents, one a line."
    return operation(
        f"list{kind}{suffix}",
        f"List or watch {cls.plural}.",
        kind=kind,
        action="list",
        parameters=[*place, *LIST],
        answers={200: content(text, shown)},
        refusals=(Reason.BadRequest, Reason.NotFound, Reason.Expired),
    )


def _read(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    shown = {"anyOf": [ref(kind), ref("Table")]}
    return operation(
        f"read{kind}",
        f"Read one of the {cls.plural}.",
        kind=kind,
        action="get",
        parameters=[*place, NAME],
        answers={200: tagged("The object; a Table if Accept asks for one.", shown)},
        refusals=(Reason.NotFound,),
    )


def _create(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    answers = {201: tagged("The new object.", ref(kind))}
    if cls.repeatable:
        answers[200] = tagged("The object that exists, with the same name and spec.", ref(kind))
    return operation(
        f"create{kind}",
        f"Create one of the {cls.plural}.",
        kind=kind,
        action="post",
        parameters=[*place, TRY, KEY, MATCH],
        body={JSON: {"schema": ref(kind)}},
        answers=answers,
        refusals=(Reason.BadRequest, Reason.NotFound, *_WRITE),
    )


def _replace(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    return operation(
        f"replace{kind}",
        f"Replace one of the {cls.plural}.",
        kind=kind,
        action="put",
        parameters=[*place, NAME, TRY, MATCH],
        body={JSON: {"schema": ref(kind)}},
        answers={200: tagged("The changed object.", ref(kind))},
        refusals=(Reason.BadRequest, Reason.NotFound, *_CHANGE),
    )


def _patch(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    merge = {"type": "object", "description": "What changes (RFC 7396); null removes."}
    steps = {"type": "array", "items": ref("PatchStep"), "description": "What to do, in order (RFC 6902)."}
    return operation(
        f"patch{kind}",
        f"Change one of the {cls.plural}.",
        kind=kind,
        action="patch",
        parameters=[*place, NAME, TRY, MATCH],
        body={"application/merge-patch+json": {"schema": merge}, "application/json-patch+json": {"schema": steps}},
        answers={200: tagged("The changed object.", ref(kind))},
        refusals=(Reason.BadRequest, Reason.NotFound, Reason.UnsupportedMediaType, *_CHANGE),
    )


def _delete(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    return operation(
        f"delete{kind}",
        f"Delete one of the {cls.plural}.",
        kind=kind,
        action="delete",
        parameters=[*place, NAME, MATCH],
        answers={200: content("It is gone.", ref("Status"))},
        refusals=(Reason.NotFound, Reason.PreconditionFailed),
    )
