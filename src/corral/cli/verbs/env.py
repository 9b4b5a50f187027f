"""Print shell lines that point clients at the server.

CORRAL_* are for this program, NODUS_* for clients of the nodus.dev API.

For example:
  eval "$(corral env)"
"""

import shlex
from typing import Annotated

import typer

from corral.cli import connection, printing


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object instead of shell lines.")] = False,
) -> None:
    server = connection.required()
    values = {
        "NODUS_API_URL": server.url,
        "NODUS_API_KEY": server.key,
        "CORRAL_URL": server.url,
        "CORRAL_KEY": server.key,
    }
    if as_json:
        printing.out(printing.as_json(values))
        return
    for name, value in values.items():
        printing.out(f"export {name}={shlex.quote(value)}")
