"""Project: has a short name, and goes only when it is empty."""

from corral.kinds import Cause, Problem, Reason
from corral.kinds.project import DEFAULT, TEMPLATES, Project
from corral.store import Tx, objects
from corral.store.objects import Stored
from corral.verbs.services import Caller, Services

_NAME_LENGTH = 63


async def create(services: Services, caller: Caller, tx: Tx, new: Stored, asked: Project) -> Stored:
    """Ready to be used. Raises Problem."""
    if len(new.name) > _NAME_LENGTH or "." in new.name:
        message = f"is longer than {_NAME_LENGTH} characters or has a dot"
        cause = Cause(field="metadata.name", reason="FieldValueInvalid", message=message)
        raise Problem(Reason.Invalid, f"metadata.name {message}", fix="Choose a shorter, plain name.", causes=[cause])
    if not caller.enters(new.name):
        fix = "Use a key without spec.projects."
        raise Problem(Reason.Forbidden, "a key that is limited to projects cannot make others", fix=fix)
    new.status = asked.status.wire()
    return new


async def update(services: Services, caller: Caller, tx: Tx, old: Stored, new: Stored, asked: Project) -> Stored:
    """What people call it. Raises Problem Forbidden."""
    if old.name == TEMPLATES and not caller.operates:
        raise Problem(Reason.Forbidden, f"only the operator changes the project {TEMPLATES!r}")
    return new


async def delete(services: Services, caller: Caller, tx: Tx, old: Stored) -> None:
    """Nothing may be in it. Raises Problem Conflict."""
    if old.name in (DEFAULT, TEMPLATES):
        raise Problem(Reason.Conflict, f"the project {old.name!r} cannot be deleted", fix="Delete what is in it.")
    if await objects.in_use(tx.conn, old.name):
        fix = "Delete what is in it first: agents, runs, secrets and sandboxes."
        raise Problem(Reason.Conflict, f"the project {old.name!r} is not empty", fix=fix)
