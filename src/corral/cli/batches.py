"""The objects of files, each done by the server in order, or with a client dry run only checked here."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from corral.cli import connection, manifests, options
from corral.cli.outcomes import Outcomes
from corral.cli.targets import Target
from corral.sdk import Client

Act = Callable[[Client, Target, dict[str, Any], bool], Awaitable[tuple[str, dict[str, Any]]]]
"""Does one object, or with True only tries it: what became of it, and the object."""


def run(
    files: Sequence[str],
    target_of: Callable[[dict[str, Any]], Target],
    act: Act,
    *,
    dry_run: str,
    output: str,
    project: str,
) -> None:
    """Print what becomes of each object; the first that is refused ends it. Raises Failure."""
    where = options.dry_run(dry_run)
    found = [(target_of(document), document) for file in files for document in manifests.read(file)]
    outcomes = Outcomes(output, where)

    async def work(client: Client) -> None:
        with outcomes:
            for target, document in found:
                outcomes.add(target, *await act(client, target, document, bool(where)))

    if where != "client":
        connection.run(project, work)
        return
    with outcomes:
        for target, document in found:
            manifests.check(document)
            outcomes.add(target, "is valid", document)
