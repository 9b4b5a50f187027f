"""What became of each object that a verb created or changed: a line each, or with -o the objects."""

from types import TracebackType
from typing import Any, Self

from corral.cli import documents, printing
from corral.cli.targets import Target


class Outcomes:
    """A context manager: lines are printed at once, objects together at the end, also when the verb fails midway.

    `where` is the kind of dry run, or empty.
    """

    def __init__(self, output: str = "", where: str = "") -> None:
        self._show = documents.printer(output) if output else None
        self._note = f" ({where} dry run)" if where else ""
        self._objects: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._show is not None and self._objects:
            printing.out(self._show(self._objects[0] if len(self._objects) == 1 else self._objects))

    def add(self, target: Target, action: str, document: dict[str, Any]) -> None:
        """The object was `action`: created, configured, unchanged or such."""
        if self._show is not None:
            self._objects.append(document)
        else:
            name = (document.get("metadata") or {}).get("name") or target.name
            printing.out(f"{target._replace(name=name)} {action}{self._note}")


def changed(before: dict[str, Any], after: dict[str, Any], action: str) -> str:
    """The action, or `unchanged` when the server found nothing to change."""
    same = before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion")
    return "unchanged" if same else action
