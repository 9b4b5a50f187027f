"""Create, get, change and delete objects of any kind."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from corral.base import ids
from corral.kinds import CREATED_BY, Cause, Problem, Reason, Resource, scheme
from corral.store import Tx, events, objects
from corral.store.objects import Gone, NameTaken, Stored, VersionConflict

from . import access, admission
from .idempotency import Key, once
from .patches import Change
from .services import Caller, Services

T = TypeVar("T")

_SERVER_SET = {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"}


def document(stored: Stored) -> dict[str, Any]:
    """The object as clients see it."""
    wire = stored.document()
    cls = scheme.find(stored.kind)
    if not cls.nested:
        wire |= wire.pop("spec")
    if "status" not in cls.model_fields:
        wire.pop("status")
    if not stored.namespace:
        wire["metadata"].pop("namespace")
    return wire


async def create(
    services: Services,
    caller: Caller,
    cls: type[Resource],
    namespace: str,
    body: bytes,
    key: Key | None = None,
    *,
    dry_run: bool = False,
    if_match: str | None = None,
) -> tuple[int, dict[str, Any]]:
    """(201, the new object), or (200, the one that exists) when it has the same name and spec. Raises Problem.

    A dry run does all of it but keep it. `if_match` is the `etag` of such an answer: what would be made now must be the
    same.
    """
    _writable(cls)
    access.check(caller, cls, "write", namespace)
    asked = scheme.decode(body, cls)
    new = _new(caller, asked, cls, namespace)
    disclosed: dict[str, Any] = {}

    async def work(tx: Tx) -> tuple[int, Stored]:
        await access.check_project(tx.conn, namespace)
        existing = await objects.get(tx.conn, cls.__name__, namespace, new.name)
        if existing is not None:
            if not access.sees(caller, existing):
                raise _taken(cls, new.name)
            return 200, _same(existing, new, cls)
        admitted = await admission.act(cls.__name__, "create")(services, caller, tx, replace(new), asked)
        disclosed.update(admitted.disclosed)
        if if_match is not None and if_match != etag(document(admitted)):
            text = f"what the {cls.__name__} {new.name!r} would be has changed since the dry run"
            raise Problem(Reason.PreconditionFailed, text, fix="Look at a new dry run, and send its ETag.")
        try:
            created = await objects.create(tx, admitted)
        except NameTaken:
            raise _taken(cls, new.name) from None
        await events.note(tx, created, "Created", f"{caller.user} created it")
        return 201, created

    if dry_run:
        status, stored = await _tried(services, work)
        return status, document(replace(stored, version=max(stored.version, 0)))
    status, shown = await once(services, key, body, work, document)
    # A replayed answer does not have it: it was never stored.
    if disclosed and shown["metadata"]["uid"] == new.uid:
        shown["status"] |= disclosed
    return status, shown


def etag(wire: Mapping[str, Any]) -> str:
    """Stands for what an object would be: its spec and what admission pinned, not when or under which uid."""
    status = wire.get("status", {})
    pinned = {name: status.get(name) for name in ("revision", "model", "cost")}
    compiled = [wire["kind"], wire["metadata"].get("namespace"), wire.get("spec"), pinned]
    return ids.digest(json.dumps(compiled, sort_keys=True).encode())


class _Tried(Exception):
    """Carries the result of a dry run out of the transaction, which it undoes."""

    def __init__(self, result: Any) -> None:
        self.result = result


async def _tried(services: Services, work: Callable[[Tx], Awaitable[T]]) -> T:
    async def tried(tx: Tx) -> None:
        raise _Tried(await work(tx))

    try:
        await services.store.write(tried)
    except _Tried as done:
        result: T = done.result
        return result
    raise AssertionError("a dry run always ends by its exception")


def _check_version(stored: Stored, if_match: str | None) -> None:
    if if_match is not None and if_match != str(stored.version):
        text = f"the {stored.kind} {stored.name!r} is at version {stored.version}, not {if_match}"
        raise Problem(Reason.PreconditionFailed, text, fix="Read the object again and repeat the change.")


async def get(services: Services, caller: Caller, cls: type[Resource], namespace: str, name: str) -> Stored:
    """The object. Raises Problem NotFound, Forbidden."""
    access.check(caller, cls, "read", namespace, name)
    async with services.store.read() as conn:
        stored = await objects.get(conn, cls.__name__, namespace, name)
    if stored is None or not access.sees(caller, stored):
        raise missing(cls, namespace, name)
    return stored


async def change(
    services: Services,
    caller: Caller,
    cls: type[Resource],
    namespace: str,
    name: str,
    how: Change,
    *,
    dry_run: bool = False,
    if_match: str | None = None,
) -> dict[str, Any]:
    """The object that a patch or a new document makes of it, after the same checks as a new one. Raises Problem."""
    _writable(cls)
    access.check(caller, cls, "write", namespace)

    async def work(tx: Tx) -> Stored:
        old = await objects.get(tx.conn, cls.__name__, namespace, name)
        if old is None or not access.sees(caller, old):
            raise missing(cls, namespace, name)
        _check_version(old, if_match)
        new = await _change(services, caller, tx, cls, old, how(_editable(old)))
        return replace(new, version=old.version) if dry_run else new

    return document(await (_tried(services, work) if dry_run else services.store.write(work)))


async def delete(
    services: Services,
    caller: Caller,
    cls: type[Resource],
    namespace: str,
    name: str,
    *,
    if_match: str | None = None,
) -> dict[str, Any]:
    """Remove the object and what goes with it; the answer is its last state. Raises Problem NotFound, Forbidden."""
    _writable(cls)
    access.check(caller, cls, "write", namespace, name)

    async def work(tx: Tx) -> Stored:
        old = await objects.get(tx.conn, cls.__name__, namespace, name)
        if old is None or not access.sees(caller, old):
            raise missing(cls, namespace, name)
        _check_version(old, if_match)
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
    asked = scheme.decode(json.dumps(wanted), cls)
    expected = wanted["metadata"].get("resourceVersion")
    name = asked.wire()["metadata"].get("name", old.name)
    new = replace(old, name=name, metadata=_metadata(asked, old.metadata), spec=_spec(asked))
    _check_fixed(cls, old, new)
    admitted = await admission.act(cls.__name__, "update")(services, caller, tx, old, new, asked)
    try:
        changed = await objects.update(
            tx,
            old,
            metadata=admitted.metadata,
            spec=admitted.spec,
            status=admitted.status,
            expected_version=_version(expected),
        )
    except VersionConflict as error:
        fix = "Read the object again and repeat the change."
        raise Problem(Reason.Conflict, f"the {cls.__name__} {old.name!r} has changed meanwhile", fix=fix) from error
    except Gone:
        raise missing(cls, old.namespace, old.name) from None
    if changed.generation != old.generation:
        await events.note(tx, changed, "Updated", f"{caller.user} changed its spec: generation {changed.generation}")
    return changed


def _version(text: str | None) -> int | None:
    """The version that the client has seen; one that no object can have, if it is not a number of ours."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1


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
