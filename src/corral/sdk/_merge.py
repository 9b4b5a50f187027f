"""The three-way merge of `apply`: what the manifest no longer says is removed, what differs is set, the rest stays."""

import json
from collections.abc import Mapping
from typing import Any

from corral.kinds import Problem, scheme

LAST_APPLIED = "nodus.dev/last-applied"


def annotated(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with itself in its annotations, for the next apply. A Secret is left as it is: its values must not
    become readable."""
    if manifest.get("kind") == "Secret":
        return dict(manifest)
    metadata = dict(manifest.get("metadata") or {})
    text = json.dumps(manifest, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), LAST_APPLIED: text}
    return {**manifest, "metadata": metadata}


def patch_for(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes `live` what `manifest` says; empty when it is so already."""
    last = _last_applied(live)
    wanted = {key: manifest[key] for key in ("metadata", "spec") if key in manifest}
    if isinstance(wanted.get("spec"), Mapping):
        wanted["spec"] = _as_it_is(str(manifest.get("kind") or ""), wanted["spec"], last.get("spec"), live.get("spec"))
    patch = _difference({key: last.get(key) for key in ("metadata", "spec")}, wanted, live)
    if patch and manifest.get("kind") != "Secret":
        note = annotated(manifest)["metadata"]["annotations"][LAST_APPLIED]
        patch.setdefault("metadata", {}).setdefault("annotations", {})[LAST_APPLIED] = note
    return patch


def _last_applied(live: Mapping[str, Any]) -> Mapping[str, Any]:
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    try:
        last = json.loads(annotations.get(LAST_APPLIED, "{}"))
    except ValueError:
        return {}
    return last if isinstance(last, dict) else {}


def _as_it_is(kind: str, wanted: Mapping[str, Any], last: Any, live: Any) -> dict[str, Any]:
    """The spec that is wanted, where a field that never changes, and that is written as it was when it was applied, is
    what the server made of it: a deadline of `30m` has become a moment and must not be set again."""
    try:
        fixed = scheme.find(kind).fixed
    except Problem:
        fixed = frozenset()
    last, live = (part if isinstance(part, Mapping) else {} for part in (last, live))
    same = {key for key in fixed & wanted.keys() & last.keys() & live.keys() if _text(wanted[key]) == _text(last[key])}
    return {key: live[key] if key in same else value for key, value in wanted.items()}


def _difference(last: Any, wanted: Mapping[str, Any], live: Any) -> dict[str, Any]:
    last = last if isinstance(last, Mapping) else {}
    live = live if isinstance(live, Mapping) else {}
    patch: dict[str, Any] = {key: None for key in last if key not in wanted and key in live}
    for key, value in wanted.items():
        if isinstance(value, Mapping):
            if inner := _difference(last.get(key), value, live.get(key)):
                patch[key] = inner
            elif not isinstance(live.get(key), Mapping):
                patch[key] = {}
        elif _text(live.get(key)) != _text(value):
            patch[key] = value
    return patch


def _text(value: Any) -> str:
    # As text, since Python holds True and 1 for equal and JSON does not.
    return json.dumps(value, sort_keys=True)
