"""Verbs that only set `spec.state`: the server does the rest."""

from collections.abc import Sequence

from corral.cli import connection, targets
from corral.cli.outcomes import Outcomes
from corral.sdk import Client


def write(words: Sequence[str], state: str, action: str, project: str) -> None:
    """Bring the objects into the state. Raises Failure for a kind that does not know it."""
    found = targets.with_state(words, state)

    async def work(client: Client) -> None:
        with Outcomes() as outcomes:
            for target in found:
                document = await client.patch(target.plural, target.name, {"spec": {"state": state}})
                outcomes.add(target, action, document)

    connection.run(project, work)
