"""Show the fields of a kind, such as agentrun.spec.

The text comes from this program's own declarations: it needs no server.

For example:
  corral explain agentrun.spec
"""

from typing import Annotated

import typer

from corral.cli import printing
from corral.cli.failures import usage
from corral.kinds import Problem, scheme


def command(
    what: Annotated[str, typer.Argument(metavar="KIND[.FIELD...]", help="A kind, or a field below it.")],
) -> None:
    try:
        printing.out(scheme.explain(what))
    except Problem as problem:
        raise usage(problem.message, problem.fix) from None
