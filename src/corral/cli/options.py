"""Options that several verbs have, and the values that they share."""

from datetime import timedelta
from typing import Annotated

import typer

from corral.base import clock
from corral.cli import completions
from corral.cli.failures import usage

Project = Annotated[
    str,
    typer.Option(
        "--project",
        "-p",
        envvar="CORRAL_PROJECT",
        help="The project to work in, instead of the context's.",
        show_default=False,
        autocompletion=completions.projects,
    ),
]
Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="KIND/NAME", help="One or more objects, or KIND NAME...", autocompletion=completions.objects
    ),
]
OneTarget = Annotated[
    list[str],
    typer.Argument(metavar="KIND/NAME", help="The object, also as KIND NAME.", autocompletion=completions.objects),
]
Files = Annotated[
    list[str],
    typer.Option("--filename", "-f", metavar="FILE", help="A YAML or JSON file, a directory of them, or - for stdin."),
]
DryRun = Annotated[
    str,
    typer.Option(
        "--dry-run",
        metavar="WHERE",
        help="server: check there and store nothing; client: check against this program's kinds, without a server.",
        autocompletion=lambda: ["server", "client"],
    ),
]
Shape = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FORMAT", help="Print the objects: yaml, json, name or jsonpath=EXPRESSION."
    ),
]
Labels = Annotated[
    str, typer.Option("--selector", "-l", metavar="LABELS", help="Only objects with labels, as a=b,c!=d.")
]
Fields = Annotated[
    str, typer.Option("--field-selector", metavar="FIELDS", help="Only objects with fields, as spec.a=b.")
]


def duration(text: str) -> timedelta:
    """The length of time an option names. Raises BadParameter with the rule."""
    try:
        found = clock.parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if found <= timedelta(0):
        raise typer.BadParameter("must be longer than nothing")
    return found


def dry_run(text: str) -> str:
    """Where --dry-run is to happen; empty for no dry run. Raises Failure for what is neither."""
    if text not in ("", "none", "server", "client"):
        raise usage(f"--dry-run={text} is not known", "Use --dry-run=server or --dry-run=client.")
    return "" if text == "none" else text
