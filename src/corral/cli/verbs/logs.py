"""Print what a run did, as a log for people: its steps, commands with their output, and what its models said.

It ends with the run's phase. `corral agentrun steps` has the same as a table or JSON, `corral agentrun answer` the
answer alone.

For example:
  corral logs agentrun/count-lines
  corral logs -f ar/count-lines
"""

from contextlib import aclosing
from typing import Annotated, Any

import typer

from corral.cli import connection, screen, targets
from corral.cli.failures import usage
from corral.cli.live import Live, usd
from corral.cli.options import OneTarget, Project
from corral.sdk import Client


def command(
    what: OneTarget,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    tail: Annotated[int, typer.Option(metavar="N", help="Only the last N steps; -1 for all.", min=-1)] = -1,
    project: Project = "",
) -> None:
    target = targets.one(what)
    if target.plural != "agentruns":
        raise usage(f"{target} has no log", "Runs have one: agentrun/NAME. See also `corral events`.")

    async def work(client: Client) -> None:
        with Live(screen.console(stderr=False), whole=True) as live:
            found = await client.steps(target.name)
            items = found["items"]
            for step in items[len(items) - tail :] if 0 <= tail < len(items) else items:
                live.step(step)
            if follow:
                async with aclosing(client.follow(target.name, after=int(found["version"]))) as news:
                    async for item in news:
                        if item["type"] == "step":
                            live.step(item["step"])
            live.note(_end(await client.get(target.plural, target.name)))

    connection.run(project, work)


def _end(run: dict[str, Any]) -> str:
    status = run.get("status") or {}
    cost = status.get("cost") or {}
    why = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    spent = f"{usd(cost.get('totalUSD', '0.00'))} of {usd(cost.get('limitUSD', '0.00'))}"
    return f"run {run['metadata']['name']}  {status.get('phase', '')}{f' ({why})' if why else ''}, {spent}"
