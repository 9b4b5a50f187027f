"""Create, get, list, patch and delete objects of any kind."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from corral.base import ids
from corral.base.mergepatch import merge
from corral.kinds import Cause, Problem, Reason, Resource, scheme
from corral.store import Tx, objects, position
from corral.store.objects import Gone, NameTaken, Stored, VersionConflict

from . import admission, selectors
from .idempotency import Key, once
from .services import Caller, Services

CREATED_BY = "nodus.dev/created-by"
_SERVER_SET = {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"}


@dataclass(frozen=True)
class Page:
    """A part of a collection, and where the next begins."""

    items: list[dict[str, Any]]
    version: int
    continue_: str


def document(stored: Stored) -> dict[str, Any]:
    """The object as clients see it."""
    wire = stored.document()
    if not scheme.find(stored.kind).nested:
        wire |= wire.pop("spec")
        wire.pop("status")
    if not stored.namespace:
        wire["metadata"].pop("namespace")
    return wire


async def create(
    services: Services, caller: Caller, cls: type[Resource], namespace: str, body: bytes, key: Key | None = None
) -> tuple[int, dict[str, Any]]:
    """(201, the new object), or (200, the one that exists) when it has the same name and spec. Raises Problem."""
    asked = scheme.decode(body, cls)
    _writable(cls)
    new = _new(caller, asked, cls, namespace)

    async def work(tx: Tx) -> tuple[int, Stored]:
        existing = await objects.get(tx.conn, cls.__name__, namespace, new.name)
        if existing is not None:
            return 200, _same(existing, new, cls)
        admitted = await admission.act(cls.__name__, "create")(services, caller, tx, replace(new), asked)
        try:
            return 201, await objects.create(tx, admitted)
        except NameTaken:
            raise _taken(cls, new.name) from None

    return await once(services, key, body, work, document)


async def get(services: Services, cls: type[Resource], namespace: str, name: str) -> Stored:
    """The object. Raises Problem NotFound."""
    async with services.store.read() as conn:
        stored = await objects.get(conn, cls.__name__, namespace, name)
    if stored is None:
        raise missing(cls, namespace, name)
    return stored


async def listing(
    services: Services,
    cls: type[Resource],
    namespace: str | None,
    *,
    label_selector: str = "",
    field_selector: str = "",
    limit: int | None = None,
    continue_: str = "",
) -> Page:
    """Objects of the kind that fit the selectors, in order of project and name. Raises Problem."""
    labels, fields = selectors.labels(label_selector), selectors.fields(field_selector)
    after = _position(continue_) if continue_ else None
    found: list[Stored] = []
    async with services.store.read() as conn:
        version = await position(conn)
        while True:
            want = None if limit is None else limit + 1 - len(found)
            batch = await objects.listing(conn, cls.__name__, namespace, after=after, limit=want)
            found += [stored for stored in batch if labels(wire := document(stored)) and fields(wire)]
            if want is None or len(batch) < want or len(found) > (limit or 0):
                break
            after = (batch[-1].namespace, batch[-1].name)
    more = limit is not None and len(found) > limit
    page = found[:limit] if more else found
    return Page([document(s) for s in page], version, _token(page[-1]) if more and page else "")


async def patch(
    services: Services, caller: Caller, cls: type[Resource], namespace: str, name: str, change: Any
) -> dict[str, Any]:
    """The object that a merge patch makes of it, after the same checks as a new one. Raises Problem."""
    _writable(cls)
    if not isinstance(change, Mapping):
        raise Problem(
            Reason.BadRequest, "a merge patch is a JSON object", fix='Send such as {"spec": {"state": "Stopped"}}.'
        )

    async def work(tx: Tx) -> Stored:
        old = await objects.get(tx.conn, cls.__name__, namespace, name)
        if old is None:
            raise missing(cls, namespace, name)
        return await _change(services, caller, tx, cls, old, merge(_editable(old), change))

    return document(await services.store.write(work))


async def delete(services: Services, caller: Caller, cls: type[Resource], namespace: str, name: str) -> dict[str, Any]:
    """Remove the object and what goes with it; the answer is its last state. Raises Problem NotFound."""
    _writable(cls)

    async def work(tx: Tx) -> Stored:
        old = await objects.get(tx.conn, cls.__name__, namespace, name)
        if old is None:
            raise missing(cls, namespace, name)
        await admission.act(cls.__name__, "delete")(services, caller, tx, old)
        return await objects.delete(tx, old)

    return document(await services.store.write(work))


def missing(cls: type[Resource], namespace: str, name: str) -> Problem:
    """The refusal for an object that is not there."""
    place = f" in the project {namespace!r}" if namespace else ""
    fix = f"`corral get {cls.plural}{f' -p {namespace}' if namespace else ''}` lists what there is."
    details = {"kind": cls.__name__, "name": name}
    return Problem(Reason.NotFound, f"there is no {cls.__name__} {name!r}{place}", fix=fix, details=details)


async def _change(
    services: Services, caller: Caller, tx: Tx, cls: type[Resource], old: Stored, wanted: dict[str, Any]
) -> Stored:
    expected = wanted.get("metadata", {}).get("resourceVersion") if isinstance(wanted.get("metadata"), dict) else None
    asked = scheme.decode(json.dumps(wanted), cls)
    new = replace(old, metadata=_metadata(asked, old.metadata), spec=_spec(asked))
    _check_fixed(cls, old, new)
    admitted = await admission.act(cls.__name__, "update")(services, caller, tx, old, new, asked)
    try:
        return await objects.update(
            tx,
            old,
            metadata=admitted.metadata,
            spec=admitted.spec,
            status=admitted.status,
            expected_version=int(expected) if expected and str(expected).isdigit() else None,
        )
    except VersionConflict as error:
        fix = "Read the object again and repeat the change."
        raise Problem(Reason.Conflict, f"the {cls.__name__} {old.name!r} has changed meanwhile", fix=fix) from error
    except Gone:
        raise missing(cls, old.namespace, old.name) from None


def _editable(stored: Stored) -> dict[str, Any]:
    """The document that a patch applies to: what clients may write, and who it is."""
    wire = stored.document()
    kept = {k: v for k, v in wire["metadata"].items() if k not in _SERVER_SET or k in ("name",)}
    return {"apiVersion": wire["apiVersion"], "kind": wire["kind"], "metadata": kept, "spec": wire["spec"]}


def _new(caller: Caller, asked: Resource, cls: type[Resource], namespace: str) -> Stored:
    meta: Any = getattr(asked, "metadata")  # noqa: B009 every kind has it, the base class does not declare it
    if meta.namespace not in (None, "", namespace):
        message = f"is {meta.namespace!r}, but the request goes to the project {namespace!r}"
        cause = Cause(field="metadata.namespace", reason="FieldValueInvalid", message=message)
        raise Problem(Reason.Invalid, f"metadata.namespace {message}", fix="Leave it out.", causes=[cause])
    name = meta.name or (f"{meta.generate_name}{ids.new_suffix()}" if meta.generate_name else "")
    if not name:
        cause = Cause(field="metadata.name", reason="FieldValueRequired", message="is required")
        fix = "Give metadata.name, or metadata.generateName for a name that the server makes."
        raise Problem(Reason.Invalid, "metadata.name is required", fix=fix, causes=[cause])
    metadata = _metadata(asked, {})
    metadata["labels"] = {**metadata.get("labels", {}), CREATED_BY: caller.user}
    return Stored(ids.new_uid(), cls.__name__, namespace, name, metadata=metadata, spec=_spec(asked))


def _metadata(asked: Resource, old: Mapping[str, Any]) -> dict[str, Any]:
    meta = asked.wire()["metadata"]
    kept = {key: value for key, value in meta.items() if key not in _SERVER_SET}
    created_by = old.get("labels", {}).get(CREATED_BY)
    if created_by:
        kept["labels"] = {**kept.get("labels", {}), CREATED_BY: created_by}
    return kept


def _spec(asked: Resource) -> dict[str, Any]:
    return dict(asked.wire()["spec"])


def _same(existing: Stored, new: Stored, cls: type[Resource]) -> Stored:
    if not cls.repeatable or existing.spec != new.spec:
        raise _taken(cls, new.name, {} if not cls.repeatable else _diff(existing.spec, new.spec))
    return existing


def _taken(cls: type[Resource], name: str, diff: dict[str, Any] | None = None) -> Problem:
    details = {"kind": cls.__name__, "name": name} | ({"diff": diff} if diff else {})
    fix = f"Choose another name, or change what exists: corral apply, or corral patch {cls.__name__.lower()}/{name}."
    return Problem(Reason.AlreadyExists, f"the {cls.__name__} {name!r} exists already", fix=fix, details=details)


def _diff(have: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    keys = sorted({*have, *want})
    return {f"spec.{k}": {"have": have.get(k), "want": want.get(k)} for k in keys if have.get(k) != want.get(k)}


def _check_fixed(cls: type[Resource], old: Stored, new: Stored) -> None:
    changed = sorted(field for field in cls.fixed if old.spec.get(field) != new.spec.get(field))
    if new.name != old.name or changed:
        causes = [Cause(field=f"spec.{f}", reason="FieldImmutable", message="cannot change") for f in changed]
        what = ", ".join(f"spec.{f}" for f in changed) or "metadata.name"
        fix = "Create a new object instead."
        raise Problem(Reason.FieldImmutable, f"{what} of a {cls.__name__} cannot change", fix=fix, causes=causes)


def _writable(cls: type[Resource]) -> None:
    if not cls.writable:
        raise Problem(Reason.MethodNotAllowed, f"{cls.plural} are written by the server only")


def _token(stored: Stored) -> str:
    return base64.urlsafe_b64encode(json.dumps([stored.namespace, stored.name]).encode()).decode()


def _position(token: str) -> tuple[str, str]:
    try:
        namespace, name = json.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        raise Problem(Reason.Expired, "the continue token is not valid", fix="List again from the beginning.") from None
    return str(namespace), str(name)
