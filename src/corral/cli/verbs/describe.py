"""Show an object's fields and its events.

For example:
  corral describe agentrun/count-lines
"""

import re
from collections.abc import Iterator
from typing import Any

from corral.cli import connection, printing, targets
from corral.cli.options import OneTarget, Project
from corral.sdk import Client

_HIDDEN = {"apiVersion", "managedFields", "nodus.dev/last-applied"}
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def command(what: OneTarget, project: Project = "") -> None:
    target = targets.one(what)

    async def work(client: Client) -> None:
        document = await client.get(target.plural, target.name)
        metadata = document.pop("metadata", {})
        for line in _fields({"name": metadata.pop("name", ""), **document, "metadata": metadata}):
            printing.out(line)
        about = {"kind": target.kind.__name__, "name": target.name, "namespace": metadata.get("namespace", "")}
        fields = ",".join(f"involvedObject.{key}={value}" for key, value in about.items() if value)
        events = sorted((await client.list("events", fields=fields))["items"], key=lambda e: str(e.get("lastTime")))
        printing.out("Events:" if events else "Events: none")
        rows = [[e.get("lastTime"), e.get("type"), e.get("reason"), e.get("message")] for e in events]
        for line in printing.table(["Last Seen", "Type", "Reason", "Message"], rows) if rows else ():
            printing.out(f"  {line}")

    connection.run(project, work)


def _fields(value: dict[str, Any], indent: int = 0) -> Iterator[str]:
    """The fields of an object, one a line, nested ones indented below."""
    for key, item in value.items():
        if key in _HIDDEN or item in (None, "", [], {}):
            continue
        title = f"{' ' * indent}{_title(key)}:"
        if isinstance(item, dict):
            yield title
            yield from _fields(item, indent + 2)
        elif isinstance(item, list):
            yield title
            for one in item:
                yield from _item(one, indent + 2)
        elif "\n" in (text := _text(item)):
            yield title
            yield from (f"{' ' * (indent + 2)}{line}" for line in text.splitlines())
        else:
            yield f"{title:<24} {text}"


def _item(item: Any, indent: int) -> Iterator[str]:
    if not isinstance(item, dict):
        yield f"{' ' * indent}- {_text(item)}"
        return
    for i, line in enumerate(_fields(item, indent + 2)):
        yield line if i else f"{' ' * indent}- {line[indent + 2 :]}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _title(key: str) -> str:
    """`creationTimestamp` as `Creation Timestamp`; keys that are not field names stay as they are."""
    if not key.isalnum():
        return key
    words = _WORDS.sub(" ", key)
    return words[:1].upper() + words[1:]
