"""List objects, or show single ones.

Without -o the server's columns are printed; -w goes on with every change.

For example:
  corral get agentruns --mine --sort-by=.metadata.creationTimestamp
  corral get ar/count-lines -o yaml
  corral get agentruns -l team=search -w
"""

from dataclasses import replace
from typing import Annotated

import typer

from corral.cli import completions, connection, documents, identity, listings, targets
from corral.cli.failures import usage
from corral.cli.listings import Listing
from corral.cli.options import Fields, Labels, Project
from corral.sdk import Client

What = Annotated[
    list[str],
    typer.Argument(
        metavar="KIND[/NAME]", help="A kind, KIND NAME..., or KIND/NAME...", autocompletion=completions.objects
    ),
]
Output = Annotated[str, typer.Option("--output", "-o", metavar="FORMAT", help=f"One of {documents.FORMATS}.")]


def command(
    what: What,
    output: Output = "",
    labels: Labels = "",
    fields: Fields = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only objects that you created.")] = False,
    everywhere: Annotated[bool, typer.Option("--all-projects", "-A", help="Objects of all projects.")] = False,
    sort_by: Annotated[
        str, typer.Option("--sort-by", metavar="PATH", help="Order by a field, such as .metadata.creationTimestamp.")
    ] = "",
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Labels as a last column.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the titles.")] = False,
    watching: Annotated[bool, typer.Option("--watch", "-w", help="Go on and print every change.")] = False,
    project: Project = "",
) -> None:
    found = targets.parse(what)
    if any(target.name for target in found) and (labels or fields or everywhere or mine):
        raise usage(
            "names and selectors exclude each other", "Leave out the names, or -l, --field-selector, --mine, -A."
        )
    if watching and len(found) != 1:
        raise usage("-w follows one kind or one object", "Name one.")
    listing = Listing(
        found,
        labels=labels,
        fields=fields,
        everywhere=everywhere,
        sort_by=sort_by,
        wide=output == "wide",
        show_labels=show_labels,
        headers=not no_headers,
        watching=watching,
    )
    show = documents.printer(output) if output not in ("", "wide") else None

    async def work(client: Client) -> None:
        asked = listing
        if mine:
            user = (await identity.whoami(client)).get("user", "")
            asked = replace(listing, labels=",".join(filter(None, (labels, f"nodus.dev/created-by={user}"))))
        if show is None:
            await listings.tables(client, asked)
        else:
            await listings.documents(client, asked, show)

    connection.run(project, work)
