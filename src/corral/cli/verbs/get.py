"""List objects, or show single ones.

Without -o the server's columns are printed; -w goes on with every change.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from corral.cli import connection, documents, printing, targets
from corral.cli.failures import usage
from corral.cli.options import Fields, Labels, Project
from corral.cli.targets import Target
from corral.sdk import Client

What = Annotated[list[str], typer.Argument(metavar="KIND[/NAME]", help="A kind, KIND NAME..., or KIND/NAME...")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="FORMAT", help=f"One of {documents.FORMATS}.")]


def command(
    what: What,
    output: Output = "",
    labels: Labels = "",
    fields: Fields = "",
    everywhere: Annotated[bool, typer.Option("--all-projects", "-A", help="Objects of all projects.")] = False,
    watching: Annotated[bool, typer.Option("--watch", "-w", help="Go on and print every change.")] = False,
    project: Project = "default",
) -> None:
    found = targets.parse(what)
    names = [target for target in found if target.name]
    if names and (labels or fields or everywhere):
        raise usage("names and selectors exclude each other", "Leave out the names, or -l, --field-selector and -A.")
    if watching and len(found) != 1:
        raise usage("-w follows one kind or one object", "Name one.")
    selection = {"labels": labels, "fields": fields, "everywhere": everywhere}

    async def work(client: Client) -> None:
        if output in ("", "wide"):
            await _tables(client, found, selection, wide=output == "wide", watching=watching)
        else:
            await _documents(client, found, selection, output, watching=watching)

    connection.run(project, work)


async def _tables(
    client: Client, found: Sequence[Target], selection: dict[str, Any], *, wide: bool, watching: bool
) -> None:
    merged: list[list[Any]] = []
    titles: list[str] = []
    widths: list[int] = []
    version = ""
    for target in found:
        document = await client.table(target.plural, target.name, **({} if target.name else selection))
        these, rows = _columns(document, wide=wide, projects=selection["everywhere"])
        if titles and these != titles:
            _print_table(titles, merged, widths)
            printing.out("")
            merged, widths = [], []
        titles, merged = these, merged + rows
        version = str(document.get("metadata", {}).get("resourceVersion") or "")
    if merged or watching:
        _print_table(titles, merged, widths)
    else:
        printing.err("No objects found.")
    if not watching:
        return
    target = found[0]
    async for event in client.watch(target.plural, since=version, name=target.name, table=True, **selection):
        _, rows = _columns(event.object, wide=wide, projects=selection["everywhere"])
        for line in printing.table([], rows, widths):
            printing.out(line)


def _columns(document: dict[str, Any], *, wide: bool, projects: bool) -> tuple[list[str], list[list[Any]]]:
    """The titles and rows of a Table that are to be shown."""
    definitions = document.get("columnDefinitions") or []
    shown = [i for i, column in enumerate(definitions) if wide or not column.get("priority")]
    titles = [str(definitions[i]["name"]) for i in shown]
    rows = [[row["cells"][i] for i in shown] for row in document.get("rows") or []]
    if projects:
        titles = ["Project", *titles]
        spaces = [row.get("object", {}).get("metadata", {}).get("namespace", "") for row in document.get("rows") or []]
        rows = [[space, *row] for space, row in zip(spaces, rows, strict=True)]
    return titles, rows


def _print_table(titles: list[str], rows: list[list[Any]], widths: list[int]) -> None:
    for line in printing.table(titles, rows, widths):
        printing.out(line)


async def _documents(
    client: Client, found: Sequence[Target], selection: dict[str, Any], output: str, *, watching: bool
) -> None:
    show = documents.printer(output)
    items: list[dict[str, Any]] = []
    version = ""
    for target in found:
        if target.name:
            items.append(await client.get(target.plural, target.name))
            version = items[-1]["metadata"].get("resourceVersion", "")
        else:
            answer = await client.list(target.plural, **selection)
            version = answer.get("metadata", {}).get("resourceVersion", "")
            items += [
                {"apiVersion": answer.get("apiVersion"), "kind": target.kind.__name__} | i for i in answer["items"]
            ]
    if text := show(items):
        printing.out(text)
    if watching:
        target = found[0]
        async for event in client.watch(target.plural, since=version, name=target.name, **selection):
            printing.out(show([event.object]))
