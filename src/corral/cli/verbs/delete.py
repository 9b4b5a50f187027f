"""Delete objects by name, or those that files describe."""

from typing import Annotated

import typer

from corral.cli import connection, manifests, printing, targets
from corral.cli.failures import usage
from corral.cli.options import Files, Project
from corral.sdk import ApiError, Client


def command(
    what: Annotated[list[str] | None, typer.Argument(metavar="[KIND/NAME]", help="Objects, or KIND NAME...")] = None,
    files: Files = [],  # noqa: B006 - Typer reads the default, nobody changes it
    ignore: Annotated[bool, typer.Option("--ignore-not-found", help="What does not exist is fine.")] = False,
    project: Project = "default",
) -> None:
    found = targets.parse(what) if what else []
    for file in files:
        for document in manifests.read(file):
            name = str((document.get("metadata") or {}).get("name") or "")
            found.append(targets.Target(targets.kind(str(document.get("kind") or "")), name))
    if not found or not all(target.name for target in found):
        raise usage("delete needs the names of objects", "Write KIND/NAME, KIND NAME, or -f FILE.")

    async def work(client: Client) -> None:
        for target in found:
            try:
                await client.delete(target.plural, target.name)
            except ApiError as error:
                if not (ignore and error.code == 404):
                    raise
                continue
            printing.out(f"{target} deleted")

    connection.run(project, work)
