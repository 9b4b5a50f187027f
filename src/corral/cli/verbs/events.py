"""List what happened to all objects, or with --for to one.

For example:
  corral events --for agentrun/count-lines
  corral events -w
"""

from typing import Annotated, Any

import typer

from corral.cli import connection, printing, targets
from corral.cli.options import Project
from corral.sdk import Client


def command(
    about: Annotated[str, typer.Option("--for", metavar="KIND/NAME", help="Only events of this object.")] = "",
    watching: Annotated[bool, typer.Option("--watch", "-w", help="Go on and print new events.")] = False,
    project: Project = "",
) -> None:
    target = targets.one([about]) if about else None

    async def work(client: Client) -> None:
        fields = f"involvedObject.namespace={client.project}"
        if target is not None:
            place = fields + "," if target.kind.scope == "Project" else ""
            fields = f"{place}involvedObject.kind={target.kind.__name__},involvedObject.name={target.name}"
        found = await client.list("events", fields=fields)
        widths: list[int] = []
        titles = ["Last Seen", "Type", "Reason", "Object", "Message"]
        items = sorted(found["items"], key=lambda event: str(event.get("lastTime")))
        for line in printing.table(titles, map(_row, items), widths):
            printing.out(line)
        if watching:
            version = str(found.get("metadata", {}).get("resourceVersion") or "")
            async for event in client.watch("events", since=version, fields=fields):
                for line in printing.table([], [_row(event.object)], widths):
                    printing.out(line)

    connection.run(project, work)


def _row(event: dict[str, Any]) -> list[Any]:
    involved = event.get("involvedObject") or {}
    about = f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"
    return [event.get("lastTime"), event.get("type"), event.get("reason"), about, event.get("message")]
