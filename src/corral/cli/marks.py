"""Labels and annotations as `label` and `annotate` take them: `KEY=VALUE` sets, `KEY-` removes."""

from collections.abc import Sequence
from typing import Annotated

import typer

from corral.cli import completions, connection, targets
from corral.cli.failures import usage
from corral.cli.outcomes import Outcomes, changed
from corral.cli.targets import Target
from corral.sdk import Client

What = Annotated[
    list[str],
    typer.Argument(
        metavar="KIND/NAME... KEY=VALUE... KEY-...",
        help="Objects, then KEY=VALUE to set and KEY- to remove.",
        autocompletion=completions.objects,
    ),
]


def parse(words: Sequence[str]) -> tuple[list[Target], dict[str, str | None]]:
    """The objects, and the value for each key, None to remove it. Raises Failure when either is missing."""
    what = [word for word in words if not _is_mark(word)]
    marks: dict[str, str | None] = {}
    for word in filter(_is_mark, words):
        key, equals, value = word.partition("=")
        key = key if equals else word[:-1]
        if not key or key in marks:
            raise usage(f"{word!r} has no key" if not key else f"{key!r} appears twice", "Write KEY=VALUE or KEY-.")
        marks[key] = value if equals else None
    if not what or not marks:
        raise usage("both an object and a change are needed", "Write KIND/NAME KEY=VALUE, or KEY- to remove.")
    found = targets.parse(what)
    if not all(target.name for target in found):
        raise usage(f"{what[0]!r} is not an object", "Write KIND/NAME.")
    return found, marks


def write(words: Sequence[str], field: str, action: str, project: str) -> None:
    """Change that field of the objects' metadata."""
    found, marks = parse(words)

    async def work(client: Client) -> None:
        with Outcomes() as outcomes:
            for target in found:
                before = await client.get(target.plural, target.name)
                after = await client.patch(target.plural, target.name, {"metadata": {field: marks}})
                outcomes.add(target, changed(before, after, action), after)

    connection.run(project, work)


def _is_mark(word: str) -> bool:
    # No name of an object ends with a hyphen.
    return "=" in word or word.endswith("-")
