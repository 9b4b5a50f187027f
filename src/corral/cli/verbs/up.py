"""Run a server on this machine until Ctrl-C or SIGTERM.

Runs that are not finished then go on when the server is started again with the same home.

For example:
  corral up
  corral up --port 0 --database postgresql://corral@db/corral
"""

import dataclasses
import logging
from contextlib import AsyncExitStack
from typing import Annotated

import anyio
import typer

from corral import serve
from corral.base.home import home
from corral.cli import connection, logs, printing, progress
from corral.cli.failures import Failure
from corral.cli.interruption import Interruption


def command(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)] = 8700,
    database: Annotated[
        str,
        typer.Option(envvar="CORRAL_DATABASE", metavar="URL", help="postgresql://... instead of SQLite in the home."),
    ] = "",
    model: Annotated[str, typer.Option("--model", "-m", help="The model of agents that name none.")] = "",
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Run commands without isolation, where none works.")] = False,
    show_key: Annotated[bool, typer.Option("--show-key", help="Print the API key.")] = False,
) -> None:
    logs.shown(logging.INFO)
    settings = serve.Settings(
        home=home(), host=host, port=port, database=database or None, model=model or None, unsafe=unsafe
    )

    async def work() -> None:
        interruption = Interruption()
        async with anyio.create_task_group() as group:
            await group.start(interruption.listen)
            with interruption.scope:
                await _serve(settings, interruption, show_key=show_key)
            group.cancel_scope.cancel()
        printing.err("Corral has stopped.")

    anyio.run(connection.translated, work)


async def _serve(settings: serve.Settings, interruption: Interruption, *, show_key: bool) -> None:
    """Serve until the user asks to stop; what has begun to serve is closed in order, not cancelled."""
    async with AsyncExitStack() as stack:
        with progress.shown() as report:
            try:
                running = serve.running(dataclasses.replace(settings, on_progress=report))
                server = await stack.enter_async_context(running)
            except serve.CannotStart as error:
                raise Failure(error.message, reason="CannotStart", fix=error.fix) from error
        interruption.handled = True
        for note in server.notes:
            printing.err(note)
        printing.err(f"Corral serves {server.url} (home {settings.home})")
        printing.err('In another terminal: eval "$(corral env)", then corral run "..."')
        if show_key:
            printing.out(server.key)
        await interruption.asked.wait()
