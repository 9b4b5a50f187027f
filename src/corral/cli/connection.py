"""Which server the command line speaks to, with which key, in which project.

A context that is named wins (--context, CORRAL_CONTEXT), then CORRAL_URL and CORRAL_KEY, then the context in use; else
a `corral up` that runs with the same home has left its address there.
"""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import anyio

from corral.base.home import home
from corral.cli import contexts
from corral.cli.failures import Failure, usage
from corral.sdk import ApiError, Client, Unreachable


class Server(NamedTuple):
    """Where a server is, the key for it, and the project to work in unless another one is named."""

    url: str
    key: str
    project: str = "default"
    context: str = contexts.LOCAL
    """The context that it is from, `local`, or empty when the environment says it."""


def find() -> Server | None:
    """The server that is configured or runs here, or None."""
    if name := os.environ.get("CORRAL_CONTEXT"):
        return _of(name, contexts.load())
    if url := os.environ.get("CORRAL_URL"):
        key = os.environ.get("CORRAL_KEY", "")
        if not url.startswith(("http://", "https://")):
            raise usage(f"CORRAL_URL is {url!r}", "Set it to the server's address, such as http://127.0.0.1:8700.")
        if not key:
            raise usage("CORRAL_URL is set, but CORRAL_KEY is not", "Set CORRAL_KEY to your API key for that server.")
        return Server(url, key, context="")
    known = contexts.load()
    return _of(known.current, known)


def _of(name: str, known: contexts.Contexts) -> Server | None:
    if name in ("", contexts.LOCAL):
        return _running(home())
    context = contexts.find(known, name)
    return Server(context.url, contexts.key(name), context.project, name)


def _running(directory: Path) -> Server | None:
    """The `corral up` of that home, if its process lives."""
    try:
        record = json.loads((directory / "server.json").read_text(encoding="utf-8"))
        os.kill(int(record["pid"]), 0)
        return Server(str(record["url"]), str(record["key"]))
    except PermissionError:
        # The record is somebody else's; they have to hand out a key.
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def required() -> Server:
    """The server. Raises Failure when there is none."""
    server = find()
    if server is None:
        raise Failure(
            f"no server is configured, and none runs with the home {home()}",
            reason="NoServer",
            fix="Start one with `corral up`, log in to one with `corral login`, or set CORRAL_URL and CORRAL_KEY.",
        )
    return server


def run(project: str, work: Callable[[Client], Awaitable[None]]) -> None:
    """Do the work with a client of the server, in the context's project if none is named; its errors become Failure."""
    server = required()

    async def connected() -> None:
        async with Client(server.url, server.key, project or server.project) as client:
            await work(client)

    anyio.run(translated, connected)


async def translated(work: Callable[[], Awaitable[None]]) -> None:
    """Do the work; what the server refuses, or a server that is away, becomes a Failure."""
    try:
        await work()
    except Exception as error:
        failure = _known(error)
        if failure is None:
            raise
        raise failure from error


def _known(error: Exception) -> Failure | None:
    """The failure that an error stands for; of tasks that ran side by side, the first that is known."""
    if isinstance(error, ExceptionGroup):
        return next((found for inner in error.exceptions if (found := _known(inner))), None)
    if isinstance(error, Unreachable):
        return Failure(error.message, reason="Unreachable", fix=error.fix)
    if isinstance(error, ApiError):
        return _refused(error)
    return error if isinstance(error, Failure) else None


def _refused(error: ApiError) -> Failure:
    causes = [(cause.field, cause.message) for cause in error.causes]
    return Failure(error.message, reason=error.reason, fix=error.fix, causes=causes, request=error.request_id)
