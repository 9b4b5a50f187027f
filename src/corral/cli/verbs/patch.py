"""Change an object by a JSON merge patch.

For example: --patch '{"spec": {"state": "Stopped"}}'; null removes a field.
"""

from typing import Annotated

import typer

from corral.cli import connection, printing, targets
from corral.cli.failures import usage
from corral.cli.options import OneTarget, Project
from corral.kinds import Problem, parse
from corral.sdk import Client


def command(
    what: OneTarget,
    patch: Annotated[str, typer.Option("--patch", metavar="JSON", help="What to change; null removes a field.")],
    project: Project = "default",
) -> None:
    target = targets.one(what)
    try:
        document = parse(patch)
    except Problem as problem:
        raise usage(f"--patch: {problem.message}", problem.fix) from None
    if not isinstance(document, dict):
        raise usage("--patch is not a JSON object", """Write one such as '{"spec": {"state": "Stopped"}}'.""")

    async def work(client: Client) -> None:
        before = await client.get(target.plural, target.name)
        after = await client.patch(target.plural, target.name, document)
        same = before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion")
        printing.out(f"{target} {'unchanged' if same else 'patched'}")

    connection.run(project, work)
