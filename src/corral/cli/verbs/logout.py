"""Make the key of a context invalid on its server, and forget the context.

For example:
  corral logout
  corral logout research
"""

from typing import Annotated

import anyio
import typer

from corral.cli import completions, connection, contexts, printing
from corral.cli.failures import Failure, usage
from corral.sdk import ApiError, Client, Unreachable


def command(
    name: Annotated[
        str, typer.Argument(help="The context; the one in use if left out.", autocompletion=completions.named_contexts)
    ] = "",
) -> None:
    known = contexts.load()
    name = name or known.current
    if not name or name == contexts.LOCAL:
        raise usage("no context is in use", "Name one of `corral config list`.")
    context = contexts.find(known, name)

    async def work() -> None:
        if not context.key_name:
            printing.err("The key was given by hand: it stays valid on the server.")
            return
        try:
            async with Client(context.url, contexts.key(name), context.project) as client:
                await client.delete("apikeys", context.key_name)
        except (ApiError, Unreachable, Failure) as error:
            printing.err(f"The key {context.key_name} may still be valid on the server: {error}")

    anyio.run(connection.translated, work)
    contexts.remove(name)
    printing.out(f"Logged out of {context.url}; the context {name} is gone")
