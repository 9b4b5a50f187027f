"""The schemas of the OpenAPI document: the kinds as they are declared, and the other bodies.

pydantic writes JSON Schema from the classes. Two things are made simpler, because Kubernetes clients print and follow
the schemas and do not solve them: a field that may be missing has the type that it has when it is there, and an amount
of money is a decimal string, which is what the server answers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from corral.kinds import API_VERSION, Resource, scheme

from . import bodies, discovery

REF = "#/components/schemas/{model}"
AMOUNT = r"^[0-9]+(\.[0-9]+)?$"


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

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A map, with the rule for its keys beside it instead of in place of it."""
        shown = super().dict_schema(schema)
        for pattern, values in shown.pop("patternProperties", {}).items():
            shown |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
        return shown

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """The values that are possible, also when there is only one."""
        shown = super().literal_schema(schema)
        if "const" in shown:
            shown["enum"] = [shown.pop("const")]
        return shown

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
    return generate(scheme, bodies.ALL)


def generate(kinds: Iterable[type[Resource]], others: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """The schemas of these kinds, of lists of them, and of these bodies."""
    kinds = list(kinds)
    models = [(model, "validation") for model in (*kinds, *others)]
    names, defined = models_json_schema(models, ref_template=REF, schema_generator=Generator)  # type: ignore[arg-type]
    schemas: dict[str, Any] = defined["$defs"]
    for cls in kinds:
        # The short name is the kind's, whatever else has it.
        own = names[(cls, "validation")]["$ref"].rpartition("/")[2]
        schemas[cls.__name__] = _kind(cls, schemas[own])
        schemas[f"{cls.__name__}List"] = _list(cls)
    for schema in schemas.values():
        for shown in schema.get("properties", {}).values():
            # Printed beside the field, where nobody follows the reference.
            if "$ref" in shown and "description" not in shown:
                shown["description"] = schemas[shown["$ref"].rpartition("/")[2]].get("description", "")
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
