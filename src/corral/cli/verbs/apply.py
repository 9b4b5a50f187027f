"""Create or change objects to what files say.

Fields that the file does not name stay as they are; fields that an earlier `apply` named and this one does not are
removed. Objects are applied in order, and the first one that is refused ends the command.

For example:
  corral apply -f agent.yaml -f run.yaml
  corral apply -f manifests/ --dry-run=server
"""

from corral.cli import connection, manifests, options, targets
from corral.cli.options import DryRun, Files, Project, Shape
from corral.cli.outcomes import Outcomes
from corral.sdk import Client


def command(files: Files, dry_run: DryRun = "", output: Shape = "", project: Project = "") -> None:
    where = options.dry_run(dry_run)
    found = [(targets.named(document), document) for file in files for document in manifests.read(file)]
    outcomes = Outcomes(output, where)

    async def work(client: Client) -> None:
        with outcomes:
            for target, document in found:
                applied = await client.apply(target.plural, document, dry_run=bool(where))
                outcomes.add(target, applied.action, applied.object)

    if where != "client":
        connection.run(project, work)
        return
    with outcomes:
        for target, document in found:
            manifests.check(document)
            outcomes.add(target, "is valid", document)
