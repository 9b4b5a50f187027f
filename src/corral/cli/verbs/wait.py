"""Wait until objects are in a state.

Meanwhile stderr tells how far they are: on a terminal as one line that changes, else each new phase.
Exit code 0 when they are, 4 when the time is over, 1 when it cannot become true any more: an object was deleted, or a
run that was to reach one phase ended in another.

For example:
  corral wait agentrun/count-lines --for=jsonpath='{.status.phase}'=Succeeded --timeout=8m
  corral wait agent/helper --for=delete
"""

from contextlib import aclosing
from typing import Annotated, Any

import anyio
import typer

from corral.cli import conditions, connection, printing, targets
from corral.cli.conditions import Condition
from corral.cli.failures import TIMED_OUT, Failure, usage
from corral.cli.options import Project, Targets, duration
from corral.cli.targets import Target
from corral.cli.waiting import Waiting
from corral.sdk import ApiError, Client


def command(
    what: Targets,
    condition: Annotated[
        str,
        typer.Option("--for", metavar="CONDITION", help="delete, condition=TYPE[=STATUS] or jsonpath=PATH[=VALUE]."),
    ],
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait, such as 90s or 1h30m.")] = "30s",
    project: Project = "",
) -> None:
    limit = duration(timeout).total_seconds()
    found = targets.parse(what)
    if not all(target.name for target in found):
        raise usage("wait needs the names of objects", "Write KIND/NAME, such as agentrun/run-abc12.")
    wanted = conditions.parse(condition)

    async def work(client: Client) -> None:
        target, seen = found[0], dict[str, Any]()
        with anyio.move_on_after(limit):
            for target in found:
                seen = {}
                with Waiting(target) as waiting:
                    await _until(client, target, wanted, seen, waiting)
                printing.out(f"{target} {'deleted' if wanted.check is None else 'condition met'}")
            return
        phase = (seen.get("status") or {}).get("phase")
        now = f"; its phase is {phase}" if phase else ""
        raise Failure(f"{target} is not {condition} after {timeout}{now}", reason="TimedOut", code=TIMED_OUT)

    connection.run(project, work)


async def _until(client: Client, target: Target, wanted: Condition, seen: dict[str, Any], waiting: Waiting) -> None:
    """Returns when the condition holds, and keeps the newest object in `seen`. Raises Failure when it never will."""
    while True:
        try:
            seen |= await client.get(target.plural, target.name)
        except ApiError as error:
            if error.code == 404 and wanted.check is None:
                return
            raise
        if wanted.holds(target, seen):
            return
        waiting.show(seen)
        try:
            if await _changes(client, target, wanted, seen, waiting):
                return
        except ApiError as error:
            # 410: the changes since then are gone. Look again and go on from there.
            if error.code != 410:
                raise


async def _changes(client: Client, target: Target, wanted: Condition, seen: dict[str, Any], waiting: Waiting) -> bool:
    version = seen["metadata"].get("resourceVersion", "")
    async with aclosing(client.watch(target.plural, name=target.name, since=version)) as events:
        async for event in events:
            seen |= event.object
            if event.type == "DELETED":
                if wanted.check is None:
                    return True
                raise Failure(f"{target} was deleted", reason="NotFound")
            if wanted.holds(target, event.object):
                return True
            waiting.show(event.object)
    return False
