"""Run an agent on a prompt, show its steps, and print its answer.

The answer goes to stdout, all else to stderr. Without a server (CORRAL_URL, or a `corral up` with the same home), one
is started for this run and ended after it. Exit code 0 with an answer, 1 when the run failed or waits for somebody, 4
when --timeout is over, 130 after Ctrl-C, which cancels the run.

For example:
  corral run "Use the shell to print the Python version."
  corral run --agent helper --timeout 10m - < prompt.txt
"""

import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal, InvalidOperation
from typing import Annotated

import anyio
import typer

from corral.base.home import home
from corral.cli import connection, logs, printing, progress
from corral.cli.conversation import Conversation, Request
from corral.cli.failures import INTERRUPTED, REFUSED, Failure, usage
from corral.cli.interruption import Interruption
from corral.cli.live import Live
from corral.cli.options import Project, duration
from corral.sdk import Client


def command(
    prompt: Annotated[str, typer.Argument(help="What to do; - reads it from stdin.")],
    model: Annotated[str, typer.Option("--model", "-m", help="A model, such as anthropic/claude-sonnet-5-5.")] = "",
    agent: Annotated[str, typer.Option(help="An agent that exists, instead of the flags below.")] = "",
    system: Annotated[str, typer.Option(metavar="TEXT", help="The system prompt.")] = "",
    image: Annotated[str, typer.Option(help="What the sandbox's file system is made of.")] = "",
    max_cost: Annotated[str, typer.Option(metavar="USD", help="The most that the run may spend on models.")] = "",
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Fail after this long, such as 10m.")] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the sandbox's files and say where they are.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="text: the answer; json: one object.")] = "text",
    project: Project = "",
) -> None:
    if output not in ("text", "json"):
        raise usage(f"-o {output} is not an output format", "Use -o text or -o json.")
    if timeout:
        duration(timeout)
    if agent and (system or image or max_cost):
        raise usage(
            "--system, --image and --max-cost belong to the agent", f"Change agent/{agent}, or leave out --agent."
        )
    spec = {"system": system, "image": image, "perRunMaxCostUSD": _amount(max_cost)}
    request = Request(
        prompt=_prompt(prompt),
        agent=agent,
        spec={key: value for key, value in spec.items() if value},
        model=model,
        deadline=timeout,
        keep=keep,
        project=project,
    )
    code = REFUSED

    async def work() -> None:
        nonlocal code
        code = await _interruptible(request, output)

    anyio.run(connection.translated, work)
    raise typer.Exit(code)


def _prompt(text: str) -> str:
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise usage(f"the prompt on stdin is not UTF-8 text: byte {error.start}") from None
    if not text.strip():
        raise usage("the prompt is empty", "Give it as an argument, or as - on stdin.")
    return text


def _amount(text: str) -> str:
    try:
        if text and not Decimal(text).is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise usage(f"--max-cost {text!r} is not an amount of USD", "Write a number, such as 0.50.") from None
    return text


async def _interruptible(request: Request, output: str) -> int:
    """The exit code of the whole command."""
    interruption = Interruption()
    code = INTERRUPTED
    async with anyio.create_task_group() as group:
        await group.start(interruption.listen)
        with interruption.scope, Live() as live:
            async with _server(request, live) as (client, embedded):
                conversation = Conversation(client, live, interruption, embedded=embedded)
                await conversation.hold(request)
                if output == "json":
                    printing.out(json.dumps(conversation.report(), ensure_ascii=False))
                elif conversation.answer is not None:
                    printing.out(conversation.answer)
                conversation.sum_up(request)
                code = conversation.code()
        group.cancel_scope.cancel()
    return code


@asynccontextmanager
async def _server(request: Request, live: Live) -> AsyncIterator[tuple[Client, bool]]:
    """A client, and whether its server is our own and ends with us."""
    found = connection.find()
    if found is not None:
        live.note(f"server   {found.url}")
        async with Client(found.url, found.key, request.project or found.project) as client:
            yield client, False
        return
    # Imported only now: it is the whole server, which runs elsewhere do not need.
    from corral import serve

    logs.shown(logging.WARNING)
    async with AsyncExitStack() as stack:
        with progress.shown() as report:
            settings = serve.Settings(
                home=home(), host="127.0.0.1", only_own_runs=True, model=request.model or None, on_progress=report
            )
            try:
                server = await stack.enter_async_context(serve.running(settings))
            except serve.CannotStart as error:
                raise Failure(error.message, reason="CannotStart", fix=error.fix) from error
        for note in server.notes:
            live.note(note)
        yield await stack.enter_async_context(Client(server.url, server.key, request.project or "default")), True
