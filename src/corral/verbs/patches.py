"""Ways to change a document: a merge patch (RFC 7396), a JSON patch (RFC 6902), a whole new document."""

from collections.abc import Callable, Mapping
from typing import Any

from jsonpath import JSONPatch, JSONPatchError, JSONPointerError

from corral.base.mergepatch import merge
from corral.kinds import Problem, Reason

Change = Callable[[dict[str, Any]], Any]
"""Makes a new document of the one that exists. Raises Problem."""


def merging(change: Any) -> Change:
    """A merge patch. Raises Problem BadRequest if it is not an object."""
    if not isinstance(change, Mapping):
        fix = 'Send such as {"spec": {"state": "Stopped"}}.'
        raise Problem(Reason.BadRequest, "a merge patch is a JSON object", fix=fix)
    return lambda document: merge(document, change)


def operations(change: Any) -> Change:
    """A JSON patch. Raises Problem BadRequest if it is not a list of operations."""
    fix = 'Send such as [{"op": "add", "path": "/spec/maxTokens", "value": 2048}].'
    if not isinstance(change, list) or not all(isinstance(step, Mapping) for step in change):
        raise Problem(Reason.BadRequest, "a JSON patch is a list of operations", fix=fix)
    try:
        patch = JSONPatch(change)
    except (JSONPatchError, JSONPointerError, TypeError, ValueError) as error:
        raise Problem(Reason.BadRequest, f"the JSON patch is malformed: {error}", fix=fix) from error

    def apply(document: dict[str, Any]) -> Any:
        try:
            return patch.apply(document)
        except (JSONPatchError, JSONPointerError, TypeError, ValueError) as error:
            text = f"the JSON patch does not fit the object: {error}"
            raise Problem(Reason.Invalid, text, fix="Read the object again and correct the paths.") from error

    return apply


def replacing(document: Any) -> Change:
    """A whole new document, in place of the one that exists. Raises Problem BadRequest."""
    if not isinstance(document, dict):
        raise Problem(Reason.BadRequest, "the body is not a JSON object", fix="Send one object.")
    return lambda old: {**document, "metadata": {**_mapping(document.get("metadata")), **_identity(old, document)}}


def _identity(old: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The name of the path stands, unless the document says another one: that is refused later."""
    given = _mapping(document.get("metadata")).get("name")
    return {"name": given or old["metadata"]["name"]}


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
