"""APIKey: a key for the API that speaks for a user, with limits, until it is deleted."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints

from ._meta import Name, ObjectMeta
from ._resource import Column, Resource, Spec, Status

_SCOPE = re.compile(r"^(\*|\*:read|[a-z]+:(read|write))$")


def _scope(text: str) -> str:
    if text == "*:write":
        raise ValueError("does not exist; name the kinds, such as agentruns:write, or give * for everything")
    if not _SCOPE.match(text):
        raise ValueError("is no scope; write agents:read, agents:write, *:read, or * for everything")
    return text


Scope = Annotated[str, AfterValidator(_scope)]
UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]


class APIKeySpec(Spec):
    """Whom the key speaks for, and what it allows."""

    display_name: Annotated[str, StringConstraints(max_length=200)] = ""
    user: UserName | None = None
    """Whom the key speaks for: you, if you leave it out. Only the operator can name somebody else."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=100)]
    """What is allowed: PLURAL:read, PLURAL:write (which does not allow reading), *:read, or * for everything."""
    projects: Annotated[list[Name], Field(max_length=100)] = []
    """The only projects that the key reaches. Empty: all."""
    expiration_time: AwareDatetime | None = None
    """When the key stops working: RFC 3339 with an offset."""


class User(Spec):
    """A person or a program that has keys."""

    id: str
    email: str = ""


class APIKeyStatus(Status):
    """What became of it."""

    user: User | None = None
    created_by: str = ""
    """The user who made the key."""
    last_used_time: datetime | None = None
    """Exact to ten minutes."""
    key: str | None = None
    """The key itself, only in the answer to the request that creates it: the server keeps its SHA-256."""


class APIKey(Resource):
    """A key for the API. Deleting it ends it at once."""

    plural = "apikeys"
    scope = "Org"
    fixed = frozenset({"user"})
    repeatable = False
    columns = (
        Column("Name", "metadata.name"),
        Column("User", "status.user.id"),
        Column("Scopes", "spec.scopes"),
        Column("Projects", "spec.projects"),
        Column("Last Used", "status.lastUsedTime"),
        Column("Age", "metadata.creationTimestamp"),
        Column("Expires", "spec.expirationTime", wide=True),
        Column("Created By", "status.createdBy", wide=True),
        Column("Display Name", "spec.displayName", wide=True),
    )

    metadata: ObjectMeta
    spec: APIKeySpec
    status: APIKeyStatus = APIKeyStatus()
