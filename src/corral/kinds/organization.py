"""Organization: the one that a server is for."""

from ._meta import ObjectMeta
from ._resource import Column, Resource, Spec

LOCAL = "local"
"""Its name. A server has one."""


class OrganizationSpec(Spec):
    """What people call it."""

    display_name: str = ""


class Organization(Resource):
    """All projects and keys of a server."""

    plural = "organizations"
    scope = "Org"
    writable = False
    columns = (Column("Name", "metadata.name"), Column("Age", "metadata.creationTimestamp"))

    metadata: ObjectMeta
    spec: OrganizationSpec = OrganizationSpec()
