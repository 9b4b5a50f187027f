"""Read a run's answer or steps, or send it a message."""

import json
from typing import Annotated, Any

import typer

from corral.cli import connection, printing
from corral.cli.failures import usage
from corral.cli.options import Project
from corral.sdk import Client

app = typer.Typer(help=__doc__, add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The run, also as agentrun/NAME.")]


@app.command()
def answer(name: Name, project: Project = "default") -> None:
    """Print the latest answer; waits while a turn is pending."""

    async def work(client: Client) -> None:
        printing.out(await client.answer(_name(name)))

    connection.run(project, work)


@app.command()
def steps(
    name: Name,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORMAT", help="json, for all that is recorded.")
    ] = "",
    project: Project = "default",
) -> None:
    """List what the run did: each sandbox, model call and command, and whether its outcome is known."""
    if output not in ("", "json"):
        raise usage(f"-o {output} is not an output format", "Use -o json, or leave it out.")

    async def work(client: Client) -> None:
        found = await client.steps(_name(name))
        if output:
            printing.out(printing.as_json(found))
            return
        rows = [_row(step) for step in found["items"]]
        for line in printing.table(["Step", "Name", "Effect", "Outcome", "Cost", "Result bytes", "Detail"], rows):
            printing.out(line)

    connection.run(project, work)


@app.command()
def send(
    name: Name,
    message: Annotated[str, typer.Argument(help="The next prompt.")],
    key: Annotated[str, typer.Option(help="Deliver the message once, however often it is sent with this key.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="MESSAGE is a JSON value, not text.")] = False,
    project: Project = "default",
) -> None:
    """Give a run that is kept alive its next prompt."""
    payload: Any = message
    if as_json:
        try:
            payload = json.loads(message)
        except ValueError as error:
            raise usage(f"the message is not JSON: {error}") from None

    async def work(client: Client) -> None:
        receipt = await client.send(_name(name), payload, key=key)
        printing.out(f"message {receipt['seq']} sent to agentrun/{_name(name)} (key {receipt['messageKey']})")

    connection.run(project, work)


def _name(text: str) -> str:
    kind, slash, name = text.partition("/")
    if slash and kind.lower() not in ("agentrun", "agentruns", "ar"):
        raise usage(f"{text} is not a run", "Write the run's name, or agentrun/NAME.")
    return name if slash else text


def _row(step: dict[str, Any]) -> list[Any]:
    detail = step.get("detail") or {}
    text = detail.get("command") or detail.get("path") or detail.get("error") or detail.get("model") or ""
    occurrence = f"{step['name']}#{step['occurrence']}"
    line = " ".join(str(text).split())
    shown = line if len(line) <= 60 else f"{line[:59]}…"
    return [step["id"], occurrence, step["effect"], step["outcome"], step.get("costUSD"), step["resultSize"], shown]
