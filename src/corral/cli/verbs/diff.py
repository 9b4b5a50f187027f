"""Show what `apply` would change, as a unified diff.

The server says what it would store, defaults included, and stores nothing. Exit code 0 without differences, 1 with
some, 2 when something went wrong.

For example:
  corral diff -f agent.yaml
"""

import typer

from corral.cli import changes, connection, manifests, printing, targets
from corral.cli.failures import REFUSED, USAGE, Failure
from corral.cli.options import Files, Project
from corral.sdk import ApiError, Client

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def command(files: Files, project: Project = "") -> None:
    found = [(targets.named(document), document) for file in files for document in manifests.read(file)]
    differ = False

    async def work(client: Client) -> None:
        nonlocal differ
        for target, document in found:
            try:
                before = await client.get(target.plural, target.name)
            except ApiError as error:
                if error.code != 404:
                    raise
                before = None
            after = (await client.apply(target.plural, document, dry_run=True)).object
            for line in changes.unified(str(target), before, after):
                differ = True
                printing.out(printing.styled(line, _COLOURS.get(line[:1], "")))

    try:
        connection.run(project, work)
    except Failure as failure:
        failure.code = USAGE
        raise
    raise typer.Exit(REFUSED if differ else 0)
