"""Print the key for other programs, or ask what it permits.

For example:
  corral auth can-i create agentruns
  curl -H "Authorization: Bearer $(corral auth token)" ...
"""

import json
from typing import Annotated

import typer

from corral.cli import completions, connection, identity, printing, targets
from corral.cli.failures import REFUSED
from corral.cli.options import Project
from corral.sdk import Client

app = typer.Typer(help=__doc__, add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.command("can-i")
def can_i(
    verb: Annotated[str, typer.Argument(help="get, list, watch, create, patch, delete, or any other that changes.")],
    what: Annotated[
        list[str], typer.Argument(metavar="KIND", help="A kind, or KIND/NAME.", autocompletion=completions.objects)
    ],
    project: Project = "",
) -> None:
    """Print yes or no; the exit code is 0 or 1.

    \b
    For example:
      corral auth can-i delete agents -p research
    """
    kind = targets.parse(what)[0].kind
    allowed = False

    async def work(client: Client) -> None:
        nonlocal allowed
        allowed = identity.permits(await identity.whoami(client), verb.lower(), kind.plural, client.project)
        printing.out("yes" if allowed else "no")

    connection.run(project, work)
    raise typer.Exit(0 if allowed else REFUSED)


@app.command()
def token(
    exec_credential: Annotated[
        bool, typer.Option("--exec-credential", help="As an ExecCredential, for kubectl's `exec` plug-ins.")
    ] = False,
) -> None:
    """Print the key that this program sends. Keep it out of logs.

    \b
    For example:
      export CORRAL_KEY="$(corral auth token)"
    """
    key = connection.required().key
    if exec_credential:
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        key = json.dumps({**credential, "status": {"token": key}})
    printing.out(key)
