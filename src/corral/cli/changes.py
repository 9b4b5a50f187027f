"""The difference between two documents: as a merge patch for the server, and as text for people."""

import difflib
from collections.abc import Mapping
from typing import Any

from corral.cli import documents

LAST_APPLIED = "nodus.dev/last-applied"
_SERVER_SET = (
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
)


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7396) that makes `after` of `before`, if `after` holds no null."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := between(old, value):
                patch[key] = inner
        # Python holds True and 1 for equal, JSON does not.
        elif key not in before or old != value or type(old) is not type(value):
            patch[key] = value
    return patch


def editable(document: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what only the server writes."""
    kept = {key: value for key, value in document.items() if key not in ("status", "metadata")}
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _SERVER_SET}
    notes = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED}
    if notes:
        metadata["annotations"] = notes
    first: dict[str, Any] = {key: kept.pop(key) for key in ("apiVersion", "kind") if key in kept}
    return {**first, "metadata": metadata, **kept}


def unified(name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """The lines of a unified diff of two objects as YAML, without what only the server writes; none when they are
    the same. `before` None: the object does not exist."""
    old = [] if before is None else documents.as_yaml(editable(before)).split("\n")
    new = documents.as_yaml(editable(after)).split("\n")
    return list(difflib.unified_diff(old, new, f"live/{name}", f"applied/{name}", lineterm=""))
