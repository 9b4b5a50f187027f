"""The shape all kinds share: strict camelCase models whose field docstrings are the documentation."""

from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

API_VERSION = "nodus.dev/v1"


class Spec(BaseModel):
    """A part of an object. Unknown fields are errors, and the wire is camelCase."""

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )

    def wire(self) -> dict[str, Any]:
        """The JSON document: camelCase, without fields that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Status(Spec):
    """What the server has observed. Clients never write it."""

    model_config = ConfigDict(extra="ignore")


class Column(NamedTuple):
    """A column of `get` and of the wide output (`wide`)."""

    title: str
    path: str
    wide: bool = False


class Subresource(NamedTuple):
    """A part of an object with a path of its own below it, and what can be done there."""

    name: str
    verb: Literal["get", "create"] = "get"


class Resource(Spec):
    """An object on the wire. A subclass says its plural, short names and columns; nothing else is registered."""

    plural: ClassVar[str]
    short: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[Column, ...]] = ()
    scope: ClassVar[Literal["Project", "Org"]] = "Project"
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Spec fields, as they are on the wire, that cannot change after creation."""
    writable: ClassVar[bool] = True
    """Whether clients create and change objects of the kind."""
    repeatable: ClassVar[bool] = True
    """Whether creating an object again with the same spec is answered with the one that exists."""
    nested: ClassVar[bool] = True
    """Whether fields stand under `spec` and `status`; if not, they stand at the top."""
    subresources: ClassVar[tuple[Subresource, ...]] = ()
    """What else the kind's objects offer."""
    categories: ClassVar[tuple[str, ...]] = ()
    """Names for several kinds at once, such as `all` in `get all`."""
    tools: ClassVar[tuple[str, ...]] = ()
    """The MCP tools that clients of the API may offer for the kind."""

    api_version: str = API_VERSION
    kind: str = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.model_fields["kind"].default = cls.__name__
        cls.model_rebuild(force=True)
