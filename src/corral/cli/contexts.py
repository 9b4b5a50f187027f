"""The servers that somebody has logged in to, with what goes wrong there told as the command line tells it."""

from collections.abc import Iterator
from contextlib import contextmanager

from corral.cli.failures import REFUSED, USAGE, Failure
from corral.sdk import contexts
from corral.sdk.contexts import LOCAL, Context, Contexts, file
from corral.sdk.errors import CorralError, NotConfigured

__all__ = ["LOCAL", "Context", "Contexts", "add", "checked", "file", "find", "key", "load", "remove", "save"]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except CorralError as error:
        missing = isinstance(error, NotConfigured)
        reason = error.reason if missing else ""
        code = REFUSED if missing else USAGE
        raise Failure(error.message, reason=reason, fix=error.fix, code=code) from error


def load() -> Contexts:
    """What is configured. Raises Failure."""
    with _told():
        return contexts.load()


def find(known: Contexts, name: str) -> Context:
    """The context of that name. Raises Failure with those that exist."""
    with _told():
        return known.find(name)


def key(name: str) -> str:
    """The key of a context. Raises Failure."""
    with _told():
        return contexts.key(name)


def checked(name: str) -> str:
    """The name of a context that is to be written. Raises Failure."""
    with _told():
        return contexts.checked(name)


def save(known: Contexts) -> None:
    """Write the configuration. Raises Failure."""
    with _told():
        contexts.save(known)


def add(name: str, context: Context, secret: str) -> None:
    """Keep a context with its key, and use it from now on. Raises Failure."""
    with _told():
        contexts.add(name, context, secret)


def remove(name: str) -> None:
    """Forget a context and its key. Raises Failure."""
    with _told():
        contexts.remove(name)
