"""List the kinds of objects that the server has (also: api-resources).

For example:
  corral kinds
"""

from typing import Annotated

import typer

from corral.cli import connection, printing
from corral.cli.failures import usage
from corral.cli.options import Project
from corral.kinds import API_VERSION
from corral.sdk import Client


def command(
    output: Annotated[str, typer.Option("--output", "-o", metavar="FORMAT", help="json, name or wide.")] = "",
    project: Project = "",
) -> None:
    if output not in ("", "json", "name", "wide"):
        raise usage(f"-o {output} is not an output format", "Use -o json, -o name or -o wide.")

    async def work(client: Client) -> None:
        found = (await client.request("GET", f"/apis/{API_VERSION}")).json()
        # What has a slash is a part of an object, such as agentruns/answer.
        kinds = sorted((r for r in found["resources"] if "/" not in r["name"]), key=lambda r: str(r["name"]))
        if output in ("json", "name"):
            printing.out(printing.as_json(found) if output == "json" else "\n".join(r["name"] for r in kinds))
            return
        titles = ["Name", "Short names", "In projects", "Kind", "Verbs"]
        rows = [
            [r["name"], r.get("shortNames"), "yes" if r.get("namespaced") else "no", r["kind"], r.get("verbs")]
            for r in kinds
        ]
        last = None if output == "wide" else -1
        for line in printing.table(titles[:last], [row[:last] for row in rows]):
            printing.out(line)

    connection.run(project, work)
