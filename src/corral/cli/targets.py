"""The objects that a command line names: `KIND/NAME`, `KIND NAME` or `KIND`."""

from collections.abc import Sequence
from typing import NamedTuple

from corral.cli.failures import usage
from corral.kinds import Problem, Resource, scheme


class Target(NamedTuple):
    """A kind and the name of one object of it; no name means all of them."""

    kind: type[Resource]
    name: str = ""

    @property
    def plural(self) -> str:
        """The collection on the wire."""
        return self.kind.plural

    def __str__(self) -> str:
        return f"{self.kind.__name__.lower()}/{self.name}"


def kind(name: str) -> type[Resource]:
    """The kind of that name, plural or short name. Raises Failure with the kinds that exist."""
    try:
        return scheme.find(name)
    except Problem as problem:
        raise usage(problem.message, problem.fix) from None


def parse(words: Sequence[str]) -> list[Target]:
    """The targets that the words name. Raises Failure when they mix the two notations."""
    if not any("/" in word for word in words):
        found = kind(words[0])
        return [Target(found, name) for name in words[1:]] or [Target(found)]
    targets = []
    for word in words:
        first, slash, name = word.partition("/")
        if not slash or not name:
            raise usage(f"{word!r} is not KIND/NAME", "Write each object as KIND/NAME, such as agentrun/run-abc12.")
        targets.append(Target(kind(first), name))
    return targets


def one(words: Sequence[str]) -> Target:
    """The one object that the words name. Raises Failure when they name none or several."""
    targets = parse(words)
    if len(targets) != 1 or not targets[0].name:
        raise usage(f"{' '.join(words)!r} does not name one object", "Write KIND/NAME, such as agentrun/run-abc12.")
    return targets[0]
