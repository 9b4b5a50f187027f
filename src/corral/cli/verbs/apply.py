"""Create or change objects to what files say.

Fields that the file does not name stay as they are; fields that an earlier `apply` named and this one does not are
removed. Objects are applied in order, and the first one that is refused ends the command.

For example:
  corral apply -f agent.yaml -f run.yaml
  corral apply -f manifests/ --dry-run=server
"""

from typing import Any

from corral.cli import batches, targets
from corral.cli.options import DryRun, Files, Project, Shape
from corral.cli.targets import Target
from corral.sdk import Client


def command(files: Files, dry_run: DryRun = "", output: Shape = "", project: Project = "") -> None:
    batches.run(files, targets.named, _apply, dry_run=dry_run, output=output, project=project)


async def _apply(client: Client, target: Target, document: dict[str, Any], dry_run: bool) -> tuple[str, dict[str, Any]]:
    applied = await client.apply(target.plural, document, dry_run=dry_run)
    return applied.action, applied.object
