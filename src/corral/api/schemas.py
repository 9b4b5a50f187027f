"""The schemas of the OpenAPI document: the kinds as they are declared, and the bodies that are not objects of a kind.

pydantic writes JSON Schema from the classes. Two things are made simpler, because Kubernetes clients print and follow
the schemas and do not solve them: a field that may be missing has the type that it has when it is there, and an amount
of money is a decimal string, which is what the server answers.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from corral.kinds import API_VERSION, Cause, Resource, scheme
from corral.kinds.agentrun import MessageRequest

from . import discovery

REF = "#/components/schemas/{model}"
AMOUNT = r"^[0-9]+(\.[0-9]+)?$"


OrNull = Annotated[str | None, WithJsonSchema({"type": ["string", "null"]})]


class Body(BaseModel):
    """A body on the wire that is not an object of a kind."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True)


class StatusDetails(Body):
    """What a program can use of a Status; more members may be there."""

    kind: str | None = None
    """The kind, or its plural, of the object that the request was about."""
    name: str | None = None
    """The object's name."""
    uid: str | None = None
    """The object's uid."""
    causes: list[Cause] | None = None
    """The fields that are wrong."""
    diff: dict[str, Any] | None = None
    """AlreadyExists: what differs between the object that exists and the one that was sent."""
    missing_scope: str | None = None
    """Forbidden: what the key would need."""
    retry_after_seconds: int | None = None
    """When to ask again."""


class Status(Body):
    """The answer to a request that was refused, or to a deletion."""

    kind: Literal["Status"]
    api_version: Literal["v1"]
    metadata: dict[str, Any]
    status: Literal["Success", "Failure"]
    code: int | None = None
    """The HTTP status."""
    reason: str | None = None
    """One word that programs can rely on."""
    message: str | None = None
    """The same for people."""
    details: StatusDetails | None = None
    """What a program can use."""
    fix: str | None = None
    """What to do about it."""
    request_id: str | None = None
    """The request's id, which the server's log has as well."""


class ListMeta(Body):
    """Where a list stands in the history of the server."""

    resource_version: str
    """Watch from here to miss nothing."""
    continue_: str | None = Field(default=None, alias="continue")
    """Send it back as `continue` for the next page; missing on the last one."""


class TableColumn(Body):
    """A column; `priority` above 0 is for wide output."""

    name: str
    type: str
    format: str
    description: str
    priority: int


class TableRow(Body):
    """The cells of an object, and its metadata."""

    cells: list[Any]
    object: dict[str, Any]


class Table(Body):
    """A list drawn by the server, for clients that ask for `as=Table` in Accept."""

    kind: Literal["Table"]
    api_version: Literal["meta.k8s.io/v1"]
    metadata: dict[str, Any]
    column_definitions: list[TableColumn]
    rows: list[TableRow]


class WatchEvent(Body):
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: dict[str, Any]
    """The object after the change; of a BOOKMARK only its resourceVersion counts."""


class Step(Body):
    """Something that a run did once, as its journal has it."""

    id: int
    """The place in the order of steps."""
    key: str
    """What identifies the step in the run."""
    name: str
    occurrence: int
    effect: str
    """What doing it twice would mean."""
    outcome: str
    attempt: int
    start_time: OrNull
    completion_time: OrNull
    """Null while the step runs."""
    cost_usd: str = Field(alias="costUSD")
    """What the step cost, in USD."""
    result_size: int
    """Bytes of the recorded result."""
    detail: Any = None
    """What people want to see of the step."""


class StepList(Body):
    """What a run did, in order."""

    items: list[Step]
    version: int
    """Ask with `after` this version for what came later."""


class MessageReceipt(Body):
    """A message that is recorded and will be delivered once."""

    seq: int
    """The place among the run's messages."""
    message_key: str
    """The key, also when the server made it."""


class User(Body):
    """Who a key speaks for."""

    kind: str
    user: str
    email: str | None = None
    org: str
    org_name: str
    role: str
    projects: list[str]
    """The projects that the key reaches."""
    scopes: list[str]
    """What the key may do: `*`, or such as `agents:read` and `agents:write`."""


BODIES: tuple[type[BaseModel], ...] = (
    Status,
    ListMeta,
    Table,
    WatchEvent,
    StepList,
    MessageReceipt,
    MessageRequest,
    User,
)


class Generator(GenerateJsonSchema):
    """JSON Schema without nulls and made-up titles."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """The schema of the value that may be missing."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Defaults of null, of nothing, and those that the parts of the field have anyway, are left out."""
        shown = super().default_schema(schema)
        if isinstance(shown.get("default"), dict) or shown.get("default") in (None, "", []):
            shown.pop("default", None)
        return shown

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """An amount as the server writes it."""
        return {"type": "string", "pattern": AMOUNT}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The name of a schema is its key."""
        shown = super().model_schema(schema)
        shown.pop("title", None)
        return shown

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Field names need no second spelling."""
        return False


def components() -> dict[str, Any]:
    """Every schema by its name, those of the kinds with what Kubernetes clients look for in them."""
    return generate(scheme, BODIES)


def generate(kinds: Iterable[type[Resource]], bodies: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """The schemas of these kinds, of lists of them, and of these bodies."""
    kinds = list(kinds)
    models = [(model, "validation") for model in (*kinds, *bodies)]
    names, defined = models_json_schema(models, ref_template=REF, schema_generator=Generator)  # type: ignore[arg-type]
    schemas: dict[str, Any] = defined["$defs"]
    for cls in kinds:
        # The short name is the kind's, whatever else has it.
        own = names[(cls, "validation")]["$ref"].rpartition("/")[2]
        schemas[cls.__name__] = _kind(cls, schemas[own])
        schemas[f"{cls.__name__}List"] = _list(cls)
    return dict(sorted(schemas.items()))


def ref(name: str) -> dict[str, str]:
    """A reference to a schema."""
    return {"$ref": REF.format(model=name)}


def identity(kind: str) -> dict[str, str]:
    """Which kind it is, as Kubernetes clients look it up."""
    return {"group": discovery.GROUP, "version": discovery.VERSION, "kind": kind}


def _kind(cls: type[Resource], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = dict(schema["properties"])
    properties["apiVersion"] = {"type": "string", "enum": [API_VERSION], "description": "The version of the API."}
    properties["kind"] = {"type": "string", "enum": [cls.__name__], "description": "The kind of the object."}
    if "status" in properties:
        properties["status"] = {**properties["status"], "readOnly": True}
    tools = discovery.mcp(cls)
    return {
        **schema,
        "properties": properties,
        "x-kubernetes-group-version-kind": [identity(cls.__name__)],
        **({"x-nodus-mcp": tools} if tools else {}),
    }


def _list(cls: type[Resource]) -> dict[str, Any]:
    kind = f"{cls.__name__}List"
    return {
        "type": "object",
        "description": f"Objects of the kind {cls.__name__}.",
        "properties": {
            "apiVersion": {"type": "string", "enum": [API_VERSION]},
            "kind": {"type": "string", "enum": [kind]},
            "metadata": ref("ListMeta"),
            "items": {"type": "array", "items": ref(cls.__name__)},
        },
        "required": ["apiVersion", "kind", "metadata", "items"],
        "x-kubernetes-group-version-kind": [identity(kind)],
    }
