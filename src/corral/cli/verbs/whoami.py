"""Show who you are for the server, and what your key permits.

For example:
  corral whoami
  corral whoami -o json
"""

from typing import Annotated, Any

import typer

from corral.cli import connection, documents, identity, printing
from corral.cli.failures import usage
from corral.cli.options import Project
from corral.sdk import Client

_TITLES = {
    "user": "User",
    "email": "Email",
    "kind": "Kind",
    "orgName": "Organisation",
    "role": "Role",
    "projects": "Projects",
    "scopes": "Scopes",
    "availableUSD": "Credit USD",
}


def command(
    output: Annotated[str, typer.Option("--output", "-o", metavar="FORMAT", help="json or yaml.")] = "",
    project: Project = "",
) -> None:
    if output not in ("", "json", "yaml"):
        raise usage(f"-o {output} is not an output format", "Use -o json or -o yaml.")
    server = connection.required()

    async def work(client: Client) -> None:
        me = await identity.whoami(client)
        if output:
            printing.out(printing.as_json(me) if output == "json" else documents.as_yaml(me))
            return
        place = {"Server": server.url, "Context": server.context or "(environment)", "Project": client.project}
        for title, value in {**_told(me), **place}.items():
            printing.out(f"{title + ':':<14}{value}")

    connection.run(project, work)


def _told(me: dict[str, Any]) -> dict[str, str]:
    found = {title: me.get(field) for field, title in _TITLES.items()}
    return {
        title: ", ".join(value) if isinstance(value, list) else str(value) for title, value in found.items() if value
    }
