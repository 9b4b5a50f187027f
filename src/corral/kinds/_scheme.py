"""Finding kinds by name, decoding objects strictly, and explaining fields."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from types import ModuleType, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ._problem import Cause, Problem, Reason
from ._resource import API_VERSION, Resource

_REASONS = {"extra_forbidden": "FieldValueNotSupported", "missing": "FieldValueRequired"}


class Scheme:
    """All kinds, found by kind, plural or short name."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self.names: dict[str, type[Resource]] = {}
        for module in modules:
            for cls in vars(module).values():
                if isinstance(cls, type) and issubclass(cls, Resource) and cls.__module__ == module.__name__:
                    for name in (cls.__name__, cls.__name__.lower(), cls.plural, *cls.short):
                        self.names[name] = cls

    def __iter__(self) -> Iterator[type[Resource]]:
        return iter(dict.fromkeys(self.names.values()))

    def find(self, name: str) -> type[Resource]:
        """The kind of that name. Raises Problem NotFound with the known plurals."""
        cls = self.names.get(name) or self.names.get(name.lower())
        if cls is None:
            known = ", ".join(sorted(k.plural for k in self))
            raise Problem(Reason.NotFound, f"there is no kind {name!r}", fix=f"The kinds are {known}.")
        return cls

    def decode(self, body: bytes | str, expected: type[Resource] | None = None) -> Resource:
        """The object that a JSON body describes, or a Problem that names every wrong field.

        Strict on purpose: camelCase only, no unknown or repeated fields, no "4" for 4. A lenient API turns a
        typing error into a run with the wrong budget.
        """
        document = parse(body)
        if not isinstance(document, dict):
            raise Problem(Reason.BadRequest, "the body is not a JSON object", fix="Send one object with a kind.")
        cls = expected or self.find(str(document.get("kind", "")))
        _check_type(document, cls)
        try:
            # JSON mode, where strictness still takes an RFC 3339 string for a time.
            return cls.model_validate_json(json.dumps(document), strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            raise _invalid(cls, document, error) from None

    def explain(self, dotted: str) -> str:
        """What `explain agentrun.spec.model` prints: the type, the text and the fields below."""
        first, *rest = dotted.split(".")
        node: Any = self.find(first)
        text = node.__doc__ or ""
        for part in rest:
            fields = node.model_fields if isinstance(node, type) and issubclass(node, BaseModel) else {}
            field = next((f for n, f in fields.items() if part in (n, f.alias)), None)
            if field is None:
                known = ", ".join(sorted(f.alias or n for n, f in fields.items())) or "none"
                raise Problem(Reason.NotFound, f"{dotted} has no field {part!r}", fix=f"The fields here are {known}.")
            node = _model(field.annotation) or field
            text = field.description or (node.__doc__ if isinstance(node, type) else "") or ""
        lines = [dotted, "", *(f"  {line}" for line in text.strip().splitlines())]
        if isinstance(node, type) and issubclass(node, BaseModel):
            lines += ["", *_fields(node)]
        return "\n".join(lines)


def parse(body: bytes | str) -> Any:
    """JSON, with a repeated key and half a surrogate pair refused. Raises Problem BadRequest."""
    try:
        document = json.loads(body, object_pairs_hook=_once, parse_constant=_no_constant)
        json.dumps(document, ensure_ascii=False).encode()
        return document
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        message = f"the body holds {half!r}, half of a surrogate pair, which is no character"
        raise Problem(Reason.BadRequest, message, fix="Send whole characters.") from None
    except RecursionError:
        raise Problem(Reason.BadRequest, "the body is nested too deeply") from None
    except ValueError as error:
        raise Problem(Reason.BadRequest, f"the body is not JSON: {error}", fix="Send one JSON document.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"the key {key!r} appears twice in one object")
        out[key] = value
    return out


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON value")


def _check_type(document: dict[str, Any], cls: type[Resource]) -> None:
    wanted = {"apiVersion": API_VERSION, "kind": cls.__name__}
    causes = [
        Cause(field=field, reason="FieldValueInvalid", message=f"is {document[field]!r}, but must be {value!r} here")
        for field, value in wanted.items()
        if document.get(field, value) != value
    ]
    if causes:
        raise Problem(Reason.Invalid, f"the object is not a {cls.__name__} of {API_VERSION}", causes=causes)


def _invalid(cls: type[Resource], document: dict[str, Any], error: ValidationError) -> Problem:
    causes = [
        Cause(
            field=_path(e["loc"]),
            reason=_REASONS.get(e["type"], "FieldValueInvalid"),
            message=_message(e["type"], e["msg"]),
        )
        for e in error.errors(include_url=False, include_input=False)
    ]
    meta = document.get("metadata")
    name = meta.get("name", "") if isinstance(meta, dict) else ""
    fields = "; ".join(f"{c.field}: {c.message}" for c in causes)
    fix = (
        f"Correct {', '.join(dict.fromkeys(c.field for c in causes))}; `corral explain {cls.plural}` lists the fields."
    )
    return Problem(Reason.Invalid, f'{cls.__name__} "{name}" is invalid: {fields}', fix=fix, causes=causes)


def _message(kind: str, text: str) -> str:
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind == "missing":
        return "is required"
    return text.removeprefix("Value error, ")


def _path(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model inside Optional[...], list[...] and dict[...], if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model(a))), None)


def _fields(node: type[BaseModel]) -> Iterator[str]:
    rows = []
    for name, field in node.model_fields.items():
        if field.exclude:
            continue
        if field.is_required():
            need = "required"
        elif field.default in (None, "") or isinstance(field.default, BaseModel | dict | list):
            need = ""
        else:
            need = f"default {field.default}"
        note = (field.description or "").strip().splitlines()
        rows.append((field.alias or name, _type_name(field.annotation), need, note[0] if note else ""))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield f"  {'  '.join(cells)}  {row[3]}".rstrip()


def _type_name(annotation: Any) -> str:
    """The type as people write it: string, integer, `Running | Stopped`, list of EnvVar."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin is list:
        return f"list of {_type_name(inner[0])}"
    if origin is dict:
        return "map"
    if origin is Annotated:
        return _type_name(inner[0])
    options = [option for option in inner if option is not NoneType]
    if options:
        return " | ".join(_type_name(option) for option in options)
    return str(getattr(annotation, "__name__", annotation))


_PLAIN = {str: "string", int: "integer", bool: "boolean", Decimal: "decimal", datetime: "time", Any: "any"}
