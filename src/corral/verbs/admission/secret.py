"""Secret: values go to the vault as a new version, and never into the object."""

import json
from typing import Any

from corral.base import clock
from corral.kinds.secret import Secret, values
from corral.store import Tx, vault
from corral.store.objects import Stored
from corral.verbs.services import Caller, Services

LAST_APPLIED = "nodus.dev/last-applied"
_VERSIONS_SHOWN = 10
_VALUES = ("data", "stringData")


async def create(services: Services, caller: Caller, tx: Tx, new: Stored, asked: Secret) -> Stored:
    """Seal the values as version 1."""
    new.status = asked.status.wire() | {"phase": "Active", "version": 0, "keys": [], "versions": []}
    return await _write(services, caller, tx, new, asked)


async def update(services: Services, caller: Caller, tx: Tx, old: Stored, new: Stored, asked: Secret) -> Stored:
    """Seal new values as a new version; a change without values makes none."""
    return await _write(services, caller, tx, new, asked)


async def delete(services: Services, caller: Caller, tx: Tx, old: Stored) -> None:
    """The values go with the object."""
    await vault.forget(tx, old.uid)


async def _write(services: Services, caller: Caller, tx: Tx, new: Stored, asked: Secret) -> Stored:
    new.spec = {key: value for key, value in new.spec.items() if key not in _VALUES}
    new.metadata = _without_values(new.metadata)
    if asked.spec.data is None and asked.spec.string_data is None:
        return new
    decoded = values(asked.spec)
    version = int(new.status.get("version", 0)) + 1
    await services.vault.put(tx, new.uid, version, decoded)
    entry = {
        "version": version,
        "createTime": clock.rfc3339(clock.now()),
        "createdBy": caller.user,
        "keys": sorted(decoded),
    }
    versions = [entry, *new.status.get("versions", [])][:_VERSIONS_SHOWN]
    new.status = {**new.status, "version": version, "keys": sorted(decoded), "versions": versions}
    return new


def _without_values(metadata: dict[str, Any]) -> dict[str, Any]:
    """Clients keep what they applied in an annotation; there, too, values must not come back."""
    annotations = dict(metadata.get("annotations", {}))
    if LAST_APPLIED not in annotations:
        return metadata
    try:
        applied = json.loads(annotations[LAST_APPLIED])
        applied["spec"] = {key: value for key, value in applied.get("spec", {}).items() if key not in _VALUES}
        annotations[LAST_APPLIED] = json.dumps(applied, separators=(",", ":"))
    except (ValueError, TypeError, AttributeError):
        del annotations[LAST_APPLIED]
    return {**metadata, "annotations": annotations}
