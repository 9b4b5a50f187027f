"""The paths of the OpenAPI document: what can be asked of each kind, of its subresources, and of the server itself.

The paths of the kinds follow from the kinds, like the routes do. Statuses are named by the reasons of `kinds.Reason`,
so that a reader learns which refusals an operation has, and programs which codes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from corral.kinds import API_VERSION, Reason, Resource, scheme

from . import discovery
from .schemas import identity, ref

ROOT = f"/apis/{API_VERSION}"
PROJECT = f"{ROOT}/namespaces/{{namespace}}"
JSON = "application/json"
NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
ALWAYS = (Reason.Unauthorized, Reason.Forbidden, Reason.RequestEntityTooLarge)

Operation = dict[str, Any]


def paths() -> dict[str, dict[str, Operation]]:
    """Every path with its operations."""
    found: dict[str, dict[str, Operation]] = {}
    for cls in sorted(scheme, key=lambda cls: cls.plural):
        found |= _of_kind(cls)
    return found | _SUBRESOURCES | _SERVER


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


def content(text: str, schema: Mapping[str, Any], *types: str) -> dict[str, Any]:
    """An answer with a body of that schema, in each of these media types."""
    return {"description": text, "content": {name: {"schema": schema} for name in types or (JSON,)}}


def _refused(reasons: Iterable[Reason]) -> dict[str, Any]:
    by_code: dict[int, list[str]] = {}
    for reason in reasons:
        by_code.setdefault(reason.code, []).append(reason.name)
    return {
        str(code): content(f"Refused: {', '.join(dict.fromkeys(names))}.", ref("Status"))
        for code, names in sorted(by_code.items())
    }


def _parameter(name: str, text: str, where: str = "query", **schema: Any) -> dict[str, Any]:
    shown = {"name": name, "in": where, "description": text, "schema": schema or {"type": "string"}}
    return shown | {"required": True} if where == "path" else shown


_NAMESPACE = _parameter("namespace", "The project.", "path", **NAME)
_NAME = _parameter("name", "The name of the object.", "path", **NAME)
_KEY = _parameter(
    "Idempotency-Key",
    "A request that is repeated with the same key within 24 hours gets the first answer and has no second effect.",
    "header",
)
_SELECT = (
    _parameter("labelSelector", "Only objects with these labels, such as `team=search,!old`."),
    _parameter("fieldSelector", "Only objects with these values, such as `status.phase!=Failed`."),
)
_LIST = (
    *_SELECT,
    _parameter("limit", "At most this many objects; 0 for all.", type="integer", minimum=0),
    _parameter("continue", "The next page: `metadata.continue` of the page before."),
    _parameter("watch", "Stream changes as WatchEvents, one a line, until the client goes.", type="boolean"),
    _parameter("resourceVersion", "Watch from after this version; without it, what exists comes first."),
    _parameter("allowWatchBookmarks", "In a quiet watch, say now and then how far it is.", type="boolean"),
)


def _of_kind(cls: type[Resource]) -> dict[str, dict[str, Operation]]:
    root = PROJECT if cls.scope == "Project" else ROOT
    place = [_NAMESPACE] if cls.scope == "Project" else []
    collection, one = {"get": _list(cls, "", place)}, {"get": _read(cls, place)}
    if cls.writable:
        collection["post"] = _create(cls, place)
        one |= {"patch": _patch(cls, place), "delete": _delete(cls, place)}
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
        parameters=[*place, *_LIST],
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
        parameters=[*place, _NAME],
        answers={200: content("The object; a Table if Accept asks for one.", shown)},
        refusals=(Reason.NotFound,),
    )


def _create(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    answers = {201: content("The new object.", ref(kind))}
    if cls.repeatable:
        answers[200] = content("The object that exists, with the same name and spec.", ref(kind))
    return operation(
        f"create{kind}",
        f"Create one of the {cls.plural}.",
        kind=kind,
        action="post",
        parameters=[*place, _KEY],
        body={JSON: {"schema": ref(kind)}},
        answers=answers,
        refusals=(Reason.BadRequest, Reason.NotFound, *_WRITE),
    )


def _patch(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    body = {
        "application/merge-patch+json": {"schema": {"type": "object", "description": "What changes; null removes."}}
    }
    return operation(
        f"patch{kind}",
        f"Change one of the {cls.plural}.",
        kind=kind,
        action="patch",
        parameters=[*place, _NAME],
        body=body,
        answers={200: content("The changed object.", ref(kind))},
        refusals=(Reason.BadRequest, Reason.NotFound, Reason.UnsupportedMediaType, *_CHANGE),
    )


def _delete(cls: type[Resource], place: list[dict[str, Any]]) -> Operation:
    kind = cls.__name__
    return operation(
        f"delete{kind}",
        f"Delete one of the {cls.plural}.",
        kind=kind,
        action="delete",
        parameters=[*place, _NAME],
        answers={200: content("It is gone.", ref("Status"))},
        refusals=(Reason.NotFound,),
    )


_WRITE = (
    Reason.AlreadyExists,
    Reason.Conflict,
    Reason.AgentStopped,
    Reason.IdempotencyKeyReused,
    Reason.Invalid,
    Reason.Unsupported,
)
_CHANGE = (Reason.Conflict, Reason.FieldImmutable, Reason.AgentRunFinished, Reason.Invalid, Reason.Unsupported)


def _of_run(name: str, text: str, action: str, **more: Any) -> Operation:
    """An operation on a subresource of runs."""
    more.setdefault("refusals", ())
    more["refusals"] = (Reason.NotFound, *more["refusals"])
    more["parameters"] = [_NAMESPACE, _NAME, *more.get("parameters", ())]
    return operation(name, text, kind="AgentRun", action=action, **more)


_RUN = f"{PROJECT}/agentruns/{{name}}"
_SUBRESOURCES: dict[str, dict[str, Operation]] = {
    f"{_RUN}/answer": {
        "get": _of_run(
            "readAgentRunAnswer",
            "Read the latest answer of a run; while a turn is pending, the request is held for a while.",
            "get",
            answers={200: content("The text itself.", {"type": "string"}, "text/plain")},
            refusals=(Reason.Unavailable,),
        )
    },
    f"{_RUN}/steps": {
        "get": _of_run(
            "readAgentRunSteps",
            "Read what a run did.",
            "get",
            parameters=(
                _parameter("after", "Only what changed after this version.", type="integer", minimum=-1),
                _parameter("follow", "Stream the changes, one a line, until the run has ended.", type="boolean"),
            ),
            answers={
                200: {
                    "description": "The steps; with `follow`, one JSON object a line.",
                    "content": {JSON: {"schema": ref("StepList")}, "application/x-ndjson": {"schema": {}}},
                }
            },
        )
    },
    f"{_RUN}/messages": {
        "post": _of_run(
            "createAgentRunMessage",
            "Send a message to a run, which is delivered once.",
            "post",
            body={JSON: {"schema": ref("MessageRequest")}},
            answers={202: content("The message is recorded.", ref("MessageReceipt"))},
            refusals=(Reason.BadRequest, Reason.AgentRunFinished, Reason.Invalid),
        )
    },
}
_TEXT = {"type": "string"}
_SERVER: dict[str, dict[str, Operation]] = {
    "/healthz": {
        "get": operation(
            "healthz",
            "Whether the process answers.",
            answers={200: content("It does.", _TEXT, "text/plain")},
            open_to_all=True,
        )
    },
    "/readyz": {
        "get": operation(
            "readyz",
            "Whether the database answers, too.",
            answers={200: content("It does.", _TEXT, "text/plain")},
            open_to_all=True,
        )
    },
    "/auth/whoami": {
        "get": operation("whoami", "Who the key speaks for.", answers={200: content("The user.", ref("User"))})
    },
}
for _path, _text in {
    "/api": "List the versions of the nameless group of Kubernetes: none.",
    "/apis": "List the groups of the API: one.",
    f"/apis/{discovery.GROUP}": "Read the group of the API.",
    ROOT: "List the kinds and what can be done with them.",
}.items():
    _SERVER[_path] = {
        "get": operation(
            f"discover{_path.title().replace('/', '').replace('.', '')}",
            _text,
            answers={200: content("As in Kubernetes.", {"type": "object"})},
        )
    }
