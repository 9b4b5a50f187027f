"""Options that several verbs have, and the values that they share."""

from datetime import timedelta
from typing import Annotated

import typer

from corral.base import clock

Project = Annotated[
    str, typer.Option("--project", "-p", envvar="CORRAL_PROJECT", help="The project to work in.", show_default=True)
]
Targets = Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="One or more objects, or KIND NAME...")]
OneTarget = Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="The object, also as KIND NAME.")]
Files = Annotated[
    list[str],
    typer.Option("--filename", "-f", metavar="FILE", help="A YAML or JSON file, a directory of them, or - for stdin."),
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
