"""Change an object by a JSON merge patch, or with --type json by a list of JSON patch operations.

For example:
  corral patch agent/helper --patch '{"spec": {"state": "Stopped"}}'
  corral patch agent/helper --type json --patch '[{"op": "remove", "path": "/spec/system"}]'
"""

from typing import Annotated

import typer

from corral.cli import connection, options, targets
from corral.cli.failures import usage
from corral.cli.options import DryRun, OneTarget, Project, Shape
from corral.cli.outcomes import Outcomes, changed
from corral.kinds import Problem, parse
from corral.sdk import Client

_MERGE = """Write one such as '{"spec": {"state": "Stopped"}}'; null removes a field."""
_JSON = """Write one such as '[{"op": "replace", "path": "/spec/state", "value": "Stopped"}]'."""


def command(
    what: OneTarget,
    patch: Annotated[str, typer.Option("--patch", metavar="JSON", help="What to change; null removes a field.")],
    form: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="merge, an object (RFC 7396), or json, a list (RFC 6902).")
    ] = "merge",
    dry_run: DryRun = "",
    output: Shape = "",
    project: Project = "",
) -> None:
    target = targets.one(what)
    where = options.dry_run(dry_run)
    if where == "client":
        raise usage("a patch cannot be checked without a server", "Use --dry-run=server.")
    change = _change(patch, form)

    async def work(client: Client) -> None:
        with Outcomes(output, where) as outcomes:
            before = await client.get(target.plural, target.name)
            after = await client.patch(target.plural, target.name, change, dry_run=bool(where))
            outcomes.add(target, "patched" if where else changed(before, after, "patched"), after)

    connection.run(project, work)


def _change(text: str, form: str) -> dict[str, object] | list[object]:
    if form not in ("merge", "json"):
        raise usage(f"--type={form} is not a kind of patch", "Use --type=merge or --type=json.")
    try:
        change = parse(text)
    except Problem as problem:
        raise usage(f"--patch: {problem.message}", problem.fix) from None
    if form == "merge" and not isinstance(change, dict):
        raise usage("--patch is not a JSON object", _MERGE)
    if form == "json" and not isinstance(change, list):
        raise usage("--patch is not a JSON list", _JSON)
    wanted: dict[str, object] | list[object] = change
    return wanted
