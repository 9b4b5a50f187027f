"""Tables as the server draws them for `get`: the columns that a kind declares, with ages and lists made short."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from corral.base import clock
from corral.kinds import Resource

_AGES = ((86400, "d"), (3600, "h"), (60, "m"))


def wanted(accept: str) -> bool:
    """Whether the client asks for a Table."""
    return "as=Table" in accept


def table(cls: type[Resource], items: Iterable[Mapping[str, Any]], version: int | None = None) -> dict[str, Any]:
    """The objects as a meta.k8s.io Table."""
    columns = [
        {
            "name": column.title,
            "type": "string",
            "format": "name" if column.path == "metadata.name" else "",
            "description": "",
            "priority": 1 if column.wide else 0,
        }
        for column in cls.columns
    ]
    rows = [
        {
            "cells": [_cell(column.path, item) for column in cls.columns],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": item["metadata"],
            },
        }
        for item in items
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {} if version is None else {"resourceVersion": str(version)},
        "columnDefinitions": columns,
        "rows": rows,
    }


def _cell(path: str, item: Mapping[str, Any]) -> str:
    node: Any = item
    for part in path.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    if node is None:
        return ""
    if path.endswith(("Timestamp", "Time")) and isinstance(node, str):
        return age((clock.now() - datetime.fromisoformat(node)).total_seconds())
    if isinstance(node, list):
        return ",".join(node) if all(isinstance(part, str) for part in node) else str(len(node))
    return str(node)


def age(seconds: float) -> str:
    """`45s`, `12m`, `3h`, `5d`."""
    for size, unit in _AGES:
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"
