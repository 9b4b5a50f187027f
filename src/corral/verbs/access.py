"""Who may do what. Every verb begins here: scopes and projects first, then whose objects are seen.

A scope allows reading (`agents:read`, `*:read`) or writing (`agents:write`) a kind, and `*` allows everything. What a
key does not reach looks as if it did not exist; without the scope it is Forbidden, with the scope that is missing.
"""

import contextlib
import hmac
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from corral.base import clock
from corral.kinds import CREATED_BY, Problem, Reason, Resource
from corral.kinds.agent import Agent
from corral.kinds.agentrun import AgentRun
from corral.kinds.apikey import APIKey, APIKeySpec
from corral.kinds.event import Event
from corral.kinds.organization import LOCAL
from corral.kinds.project import DEFAULT, TEMPLATES, Project
from corral.kinds.sshkey import SSHKey
from corral.store import Tx, keys, objects
from corral.store.objects import Gone, Stored

from .services import OPERATOR, Caller, Services

LAST_USED_SECONDS = 600
"""How exact `lastUsedTime` is: a key in steady use writes this seldom."""

_PERSONAL = (APIKey.__name__, SSHKey.__name__)
# In the project of the templates: what everybody sees, and what everybody may make, each for himself.
_READY_MADE = (Agent.__name__, "Environment")
_OWN_WORK = (AgentRun.__name__, "AgentGroup")

Act = Literal["read", "write"]


async def caller_of(services: Services, conn: AsyncConnection, digest: str) -> Caller | None:
    """Whom the key with that SHA-256 speaks for; None if there is no such key, or not any more."""
    if _is_operator(services, digest):
        return OPERATOR
    stored = await keys.find(conn, digest)
    return None if stored is None or _expired(caller := _holder(stored)) else caller


async def authenticate(services: Services, digest: str) -> Caller | None:
    """As `caller_of`, and notes that the key was used."""
    if _is_operator(services, digest):
        return OPERATOR
    async with services.store.read() as conn:
        stored = await keys.find(conn, digest)
    if stored is None or _expired(caller := _holder(stored)):
        return None
    if _stale(stored):

        async def touch(tx: Tx) -> None:
            if (current := await keys.find(tx.conn, digest)) is not None:
                await objects.update(tx, current, status={**current.status, "lastUsedTime": clock.rfc3339(clock.now())})

        with contextlib.suppress(Gone):
            await services.store.write(touch)
    return caller


async def holds(conn: AsyncConnection, caller: Caller) -> bool:
    """Whether the caller's key still allows what it did, for streams that outlive the request."""
    if caller == OPERATOR:
        return True
    stored = await objects.get_uid(conn, caller.key)
    return stored is not None and _holder(stored) == caller and not _expired(caller)


async def whoami(services: Services, caller: Caller) -> dict[str, Any]:
    """The caller as clients show it, and as they work out what it may do."""
    async with services.store.read() as conn:
        projects = await objects.listing(conn, Project.__name__, "")
    return {
        "kind": "User",
        "user": caller.user,
        "email": "",
        "org": LOCAL,
        "orgName": LOCAL,
        "role": "Owner" if caller.operates else "Member",
        "projects": [project.name for project in projects if caller.enters(project.name)],
        "scopes": list(caller.scopes),
        "serviceAccount": "",
    }


def allows(scopes: tuple[str, ...], plural: str, act: Act) -> bool:
    """Whether scopes allow reading or writing a kind."""
    wanted = {"*", f"{plural}:{act}"} | ({"*:read"} if act == "read" else set())
    return not wanted.isdisjoint(scopes)


def check(caller: Caller, cls: type[Resource], act: Act, namespace: str | None = None, name: str = "") -> None:
    """Refuse what the caller's key does not allow. Raises Problem Forbidden, or NotFound for a project out of reach."""
    if cls is APIKey and name and name == caller.key_name:
        return  # a key can always be read and given up by itself: that is logging out
    if not allows(caller.scopes, cls.plural, act):
        raise lacking(f"{cls.plural}:{act}")
    if namespace and not caller.enters(namespace):
        raise no_project(namespace)
    if act == "write" and namespace == TEMPLATES and not caller.operates and cls.__name__ not in _OWN_WORK:
        fix = "Make it in a project of your own; runs there can use the agents of this one."
        raise Problem(Reason.Forbidden, f"only the operator writes {cls.plural} in the project {namespace!r}", fix=fix)


def sees(caller: Caller, stored: Stored) -> bool:
    """Whether an object exists for the caller, who may read its kind."""
    if caller.operates:
        return True
    if stored.kind in _PERSONAL:
        return stored.uid == caller.key or stored.status.get("user", {}).get("id") == caller.user
    if stored.kind == Project.__name__:
        return caller.enters(stored.name)
    own = stored.metadata.get("labels", {}).get(CREATED_BY) == caller.user
    if stored.kind == Event.__name__:
        # It carries the label of what it is about. What is in no project, such as a key, is its maker's business.
        place = stored.spec["involvedObject"].get("namespace")
        return bool(own if place in ("", None, TEMPLATES) else caller.enters(place))
    if stored.namespace == TEMPLATES and stored.kind not in _READY_MADE:
        return bool(own)
    return not stored.namespace or caller.enters(stored.namespace)


async def check_project(conn: AsyncConnection, namespace: str) -> None:
    """Refuse to put something into a project that does not exist. Raises Problem NotFound."""
    if namespace in ("", DEFAULT, TEMPLATES):
        return
    if await objects.get(conn, Project.__name__, "", namespace) is None:
        raise no_project(namespace)


def check_within(caller: Caller, spec: APIKeySpec) -> None:
    """Refuse a key that would allow more than the caller's own. Raises Problem Forbidden."""
    for scope in spec.scopes:
        covered = {"*", scope} | ({"*:read"} if scope.endswith(":read") else set())
        if covered.isdisjoint(caller.scopes):
            raise lacking(scope)
    if spec.user not in (None, caller.user) and not caller.operates:
        raise _more("speak for another user", "Leave spec.user out.")
    if caller.projects and (not spec.projects or not set(spec.projects) <= set(caller.projects)):
        raise _more("reach other projects", f"Give spec.projects, of {', '.join(caller.projects)}.")
    if caller.expires and (spec.expiration_time is None or spec.expiration_time > caller.expires):
        raise _more("live longer", f"Give spec.expirationTime, at most {clock.rfc3339(caller.expires)}.")


def lacking(scope: str) -> Problem:
    """The refusal of a key without a scope."""
    fix = f"Use a key with the scope {scope}; `corral get apikeys` shows what each key allows."
    details = {"missingScope": scope}
    return Problem(Reason.Forbidden, f"the key does not have the scope {scope!r}", fix=fix, details=details)


def no_project(name: str) -> Problem:
    """The refusal for a project that does not exist, or is out of the key's reach: the two look the same."""
    fix = f"Create it: corral create project {name}. `corral get projects` lists those that your key reaches."
    details = {"kind": Project.__name__, "name": name}
    return Problem(Reason.NotFound, f"there is no project {name!r}", fix=fix, details=details)


def _more(what: str, fix: str) -> Problem:
    return Problem(Reason.Forbidden, f"a new key cannot {what} than the key that makes it", fix=fix)


def _is_operator(services: Services, digest: str) -> bool:
    return bool(services.operator_digest) and hmac.compare_digest(digest, services.operator_digest)


def _holder(stored: Stored) -> Caller:
    expires = stored.spec.get("expirationTime")
    return Caller(
        user=stored.status["user"]["id"],
        scopes=tuple(stored.spec["scopes"]),
        projects=tuple(stored.spec["projects"]),
        key=stored.uid,
        key_name=stored.name,
        expires=datetime.fromisoformat(expires) if expires else None,
    )


def _expired(caller: Caller) -> bool:
    return caller.expires is not None and caller.expires <= clock.now()


def _stale(stored: Stored) -> bool:
    last = stored.status.get("lastUsedTime")
    return last is None or (clock.now() - datetime.fromisoformat(last)).total_seconds() > LAST_USED_SECONDS
