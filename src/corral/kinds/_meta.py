"""What every object has: its name, its place, its history."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from ._resource import Spec

CREATED_BY = "nodus.dev/created-by"
"""The label that says which user made an object. The server sets it."""

NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=253)]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]


class ObjectMeta(Spec):
    """Name, labels and the server's own bookkeeping."""

    name: Name | None = None
    """Unique among objects of the kind in the project: lowercase letters, digits, `-` and `.`."""
    generate_name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-a-z0-9.]*$", max_length=200)] | None = None
    """A prefix: the server adds five characters to make a name."""
    namespace: Name | None = None
    """The project."""
    labels: dict[str, LabelValue] = {}
    """For selecting objects, as in `-l team=search`."""
    annotations: dict[str, str] = {}
    """Notes for people and tools; not for selecting."""
    uid: str | None = None
    """Set by the server; never used again after deletion."""
    resource_version: str | None = None
    """Changes with every write. Send it back to be told when somebody else wrote first."""
    generation: int | None = None
    """Counts accepted changes of the spec."""
    creation_timestamp: datetime | None = None
    """When the server accepted the object."""
    deletion_timestamp: datetime | None = None
    """When deletion was asked for."""
    managed_fields: list[Any] | None = Field(default=None, exclude=True)
    """Accepted from Kubernetes clients and ignored."""


class Condition(Spec):
    """One aspect of an object's state."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
