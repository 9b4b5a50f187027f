"""Set or remove labels of objects.

Labels are for selecting, as in `corral get agents -l team=search`. A value that is there already is replaced.

For example:
  corral label agent/helper team=search
  corral label agent/helper team-
"""

from typing import Annotated

import typer

from corral.cli import completions, marks
from corral.cli.options import Project

What = Annotated[
    list[str],
    typer.Argument(
        metavar="KIND/NAME... KEY=VALUE... KEY-...",
        help="Objects, then KEY=VALUE to set and KEY- to remove.",
        autocompletion=completions.objects,
    ),
]


def command(what: What, project: Project = "") -> None:
    marks.write(what, "labels", "labeled", project)
