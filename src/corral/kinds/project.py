"""Project: where agents, runs and secrets live, and what a key can be limited to."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from ._meta import ObjectMeta
from ._resource import Column, Resource, Spec, Status

DEFAULT = "default"
"""The project of clients that name none."""
TEMPLATES = "nodus"
"""The project with the ready-made agents: the operator writes it, everybody uses it."""


class ProjectSpec(Spec):
    """What people call it."""

    display_name: Annotated[str, StringConstraints(max_length=200)] = ""


class ProjectStatus(Status):
    """Whether it can be used."""

    phase: Literal["Active"] = "Active"


class Project(Resource):
    """A place for objects: names are unique in it, and keys can be limited to it."""

    plural = "projects"
    scope = "Org"
    columns = (
        Column("Name", "metadata.name"),
        Column("Display Name", "spec.displayName"),
        Column("Phase", "status.phase"),
        Column("Age", "metadata.creationTimestamp"),
    )

    metadata: ObjectMeta
    spec: ProjectSpec = ProjectSpec()
    status: ProjectStatus = ProjectStatus()
