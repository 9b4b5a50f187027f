"""The objects that a command line names: `KIND/NAME`, `KIND NAME` or `KIND`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

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


def described(document: Mapping[str, Any]) -> Target:
    """The object that a manifest describes; it may be without a name. Raises Failure for a kind that does not exist."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return Target(kind(str(document.get("kind") or "")), name if isinstance(name, str) else "")


def named(document: Mapping[str, Any]) -> Target:
    """The object that a manifest describes, by its name. Raises Failure when it has none."""
    target = described(document)
    if not target.name:
        raise usage(f"a {target.kind.__name__} has no metadata.name", "Objects are found by name: give it one.")
    return target


def with_state(words: Sequence[str], state: str) -> list[Target]:
    """The objects that the words name, whose kinds must know the state. Raises Failure with the kinds that do."""
    found = parse(words)
    for target in found:
        if state not in _states(target.kind) or not target.name:
            known = " or ".join(sorted(f"{cls.__name__.lower()}/NAME" for cls in scheme if state in _states(cls)))
            raise usage(f"{target} cannot be {state}", f"Write {known}.")
    return found


def _states(cls: type[Resource]) -> tuple[str, ...]:
    """The values of `spec.state`; none for kinds without it."""
    spec = cls.model_fields.get("spec")
    state = getattr(spec.annotation, "model_fields", {}).get("state") if spec else None
    return get_args(state.annotation) if state else ()
