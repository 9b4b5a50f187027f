"""Stop runs at once; what they recorded stays."""

from corral.cli import connection, printing, targets
from corral.cli.failures import usage
from corral.cli.options import Project, Targets
from corral.sdk import Client


def command(what: Targets, project: Project = "default") -> None:
    found = targets.parse(what)
    for target in found:
        if target.plural != "agentruns" or not target.name:
            raise usage(f"{target} is not a run", "Write agentrun/NAME.")

    async def work(client: Client) -> None:
        for target in found:
            await client.patch(target.plural, target.name, {"spec": {"state": "Cancelled"}})
            printing.out(f"{target} cancelled")

    connection.run(project, work)
