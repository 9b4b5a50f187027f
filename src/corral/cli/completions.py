"""What a shell offers where kinds, objects and projects are named.

Names come from the server, which has two seconds for it; without one, only what this program knows is offered.
"""

import anyio
import typer

from corral.cli import connection, contexts, targets
from corral.cli.failures import Failure
from corral.kinds import scheme
from corral.sdk import ApiError, Client, Unreachable

PATIENCE = 2.0
"""Seconds that a server may take."""


def objects(ctx: typer.Context, incomplete: str) -> list[str]:
    """KIND, then its names; or KIND/NAME once there is a slash."""
    before = [word for word in ctx.params.get("what") or () if word != incomplete]
    kind, slash, _ = incomplete.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(ctx, kind) if f"{kind}/{name}".startswith(incomplete)]
    if before and "/" not in before[0]:
        return [name for name in _names(ctx, before[0]) if name.startswith(incomplete)]
    return [word for word in sorted(scheme.names) if word.islower() and word.startswith(incomplete)]


def projects(ctx: typer.Context, incomplete: str) -> list[str]:
    """The projects of the server."""
    return [name for name in _names(ctx, "projects") if name.startswith(incomplete)]


def named_contexts(incomplete: str) -> list[str]:
    """The contexts that are configured, and the server of this machine."""
    try:
        return [name for name in (*contexts.load().contexts, contexts.LOCAL) if name.startswith(incomplete)]
    except Failure:
        return []


def _names(ctx: typer.Context, kind: str) -> list[str]:
    """The names of all objects of a kind; none when they cannot be had, since nobody can be told why here."""
    found: list[str] = []

    async def ask() -> None:
        server = connection.find()
        if server is None:
            return
        project = ctx.params.get("project") or server.project
        with anyio.move_on_after(PATIENCE):
            async with Client(server.url, server.key, project) as client:
                items = (await client.list(targets.kind(kind).plural))["items"]
                found.extend(item["metadata"]["name"] for item in items)

    try:
        anyio.run(ask)
    except (Failure, ApiError, Unreachable):
        return []
    return found
