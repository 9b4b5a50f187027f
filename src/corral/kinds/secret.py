"""Secret: values that go in and never come out again, except as files of a sandbox."""

import base64
import binascii
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from ._meta import ObjectMeta
from ._resource import Column, Resource, Spec, Status

Key = Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=128)]


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64; use stringData for plain text") from None
    return text


def _no_dots(key: str) -> str:
    if key in (".", ".."):
        raise ValueError("is not a file name")
    return key


SecretKey = Annotated[Key, AfterValidator(_no_dots)]


class SecretSpec(Spec):
    """Write-only values. A write with values makes a new version."""

    type: Literal["Opaque"] = "Opaque"
    data: Annotated[dict[SecretKey, Annotated[str, AfterValidator(_base64)]], Field(max_length=64)] | None = None
    """Values in base64. Write-only."""
    string_data: Annotated[dict[SecretKey, str], Field(max_length=64)] | None = None
    """Values as text. Write-only; wins over `data` for the same key."""


class SecretVersion(Spec):
    """One write of values."""

    version: int
    create_time: str = ""
    created_by: str = ""
    keys: list[str] = []


class SecretStatus(Status):
    """What may be known of the values."""

    phase: str = "Active"
    version: int = 0
    keys: list[str] = []
    """The names of the values."""
    versions: list[SecretVersion] = []
    """The ten newest."""


class Secret(Resource):
    """Named values, encrypted at rest, that a sandbox gets as files."""

    plural = "secrets"
    tools = ("apply", "delete")
    columns = (
        Column("Name", "metadata.name"),
        Column("Version", "status.version"),
        Column("Keys", "status.keys"),
        Column("Age", "metadata.creationTimestamp"),
    )
    fixed = frozenset({"type"})
    repeatable = False

    metadata: ObjectMeta
    spec: SecretSpec = SecretSpec()
    status: SecretStatus = SecretStatus()


def values(spec: SecretSpec) -> dict[str, bytes]:
    """The values that a write brings, decoded."""
    decoded = {key: base64.b64decode(text) for key, text in (spec.data or {}).items()}
    return decoded | {key: text.encode("utf-8", "surrogatepass") for key, text in (spec.string_data or {}).items()}
