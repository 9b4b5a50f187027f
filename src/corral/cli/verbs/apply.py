"""Create or change objects to what files say.

Fields that the file does not name stay as they are; fields that an earlier `apply` named and this one does not are
removed. Objects are applied in order, and the first one that is refused ends the command.
"""

from corral.cli import connection, manifests, printing, targets
from corral.cli.failures import usage
from corral.cli.options import Files, Project
from corral.sdk import Client


def command(files: Files, project: Project = "default") -> None:
    documents = [document for file in files for document in manifests.read(file)]
    named = []
    for document in documents:
        kind = targets.kind(str(document.get("kind") or ""))
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not name:
            raise usage(f"a {kind.__name__} has no metadata.name", "Apply finds objects by name: give it one.")
        named.append((targets.Target(kind, name), document))

    async def work(client: Client) -> None:
        for target, document in named:
            applied = await client.apply(target.plural, document)
            printing.out(f"{target} {applied.action}")

    connection.run(project, work)
