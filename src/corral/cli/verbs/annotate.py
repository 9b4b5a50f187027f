"""Set or remove annotations of objects.

Annotations are notes for people and tools; objects are not selected by them.

For example:
  corral annotate agent/helper owner="the search team"
  corral annotate agent/helper owner-
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
    marks.write(what, "annotations", "annotated", project)
