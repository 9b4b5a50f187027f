"""Delete objects by name, by labels, or those that files describe.

For example:
  corral delete agentrun/count-lines
  corral delete agentruns -l team=search
  corral delete -f agent.yaml --ignore-not-found
"""

from typing import Annotated

import typer

from corral.cli import completions, connection, manifests, printing, targets
from corral.cli.failures import usage
from corral.cli.options import Fields, Files, Labels, Project
from corral.cli.targets import Target
from corral.sdk import ApiError, Client

What = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KIND/NAME]", help="Objects, or KIND NAME...", autocompletion=completions.objects),
]


def command(
    what: What = None,
    files: Files = [],  # noqa: B006 - Typer reads the default, nobody changes it
    labels: Labels = "",
    fields: Fields = "",
    ignore: Annotated[bool, typer.Option("--ignore-not-found", help="What does not exist is fine.")] = False,
    project: Project = "",
) -> None:
    found = targets.parse(what) if what else []
    found += [targets.named(document) for file in files for document in manifests.read(file)]
    selecting = bool(labels or fields)
    if not found or any(bool(target.name) == selecting for target in found):
        raise usage("delete needs names, or a kind with -l", "Write KIND/NAME, KIND NAME, KIND -l LABELS, or -f FILE.")

    async def work(client: Client) -> None:
        doomed = found
        if selecting:
            doomed = [one for target in found for one in await _selected(client, target, labels, fields)]
        for target in doomed:
            try:
                await client.delete(target.plural, target.name)
            except ApiError as error:
                # What somebody else deleted between our list and our delete is gone as it should be.
                if not ((ignore or selecting) and error.code == 404):
                    raise
                continue
            printing.out(f"{target} deleted")
        if not doomed:
            printing.err("No objects found.")

    connection.run(project, work)


async def _selected(client: Client, target: Target, labels: str, fields: str) -> list[Target]:
    items = (await client.list(target.plural, labels=labels, fields=fields))["items"]
    return [target._replace(name=item["metadata"]["name"]) for item in items]
