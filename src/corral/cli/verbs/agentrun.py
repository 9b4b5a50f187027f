"""Read a run's answer, steps or team, send it a message, or decide about its team's tasks.

For example:
  corral agentrun answer count-lines
  corral agentrun send count-lines "And now the tests." --key second
"""

import json
from typing import Annotated, Any

import typer

from corral.cli import connection, printing, teams
from corral.cli.failures import usage
from corral.cli.options import Project
from corral.sdk import Client

app = typer.Typer(help=__doc__, add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The run, also as agentrun/NAME.")]
Task = Annotated[str, typer.Argument(help="The task's name or id, as `team` shows it.")]
Key = Annotated[str, typer.Option(help="Ask once, however often this is repeated with the same key.")]


@app.command()
def answer(name: Name, project: Project = "") -> None:
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
    project: Project = "",
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
    project: Project = "",
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


@app.command()
def team(
    name: Name,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FORMAT", help="json, for all there is.")] = "",
    project: Project = "",
) -> None:
    """Show the tasks that the run's subagents work on, and what you can do next."""
    if output not in ("", "json"):
        raise usage(f"-o {output} is not an output format", "Use -o json, or leave it out.")

    async def work(client: Client) -> None:
        found = await teams.view(client, _name(name))
        printing.out(printing.as_json(found) if output else "\n".join(teams.lines(_name(name), found)))

    connection.run(project, work)


@app.command("retry-task")
def retry_task(name: Name, task: Task, key: Key = "", project: Project = "") -> None:
    """Do a failed task again."""
    _control(project, name, task, "Retry", key)


@app.command("redirect-task")
def redirect_task(
    name: Name,
    task: Task,
    instruction: Annotated[str, typer.Argument(help="What to do instead.")],
    key: Key = "",
    project: Project = "",
) -> None:
    """Do a failed task again in another way."""
    _control(project, name, task, "Redirect", key, instruction)


@app.command("cancel-task")
def cancel_task(name: Name, task: Task, key: Key = "", project: Project = "") -> None:
    """Give a task up; the run goes on without it."""
    _control(project, name, task, "Cancel", key)


def _control(project: str, name: str, task: str, action: str, key: str, instruction: str = "") -> None:
    async def work(client: Client) -> None:
        used = await teams.control(client, _name(name), task, action, key, instruction)
        printing.out(f"{action.lower()} of {task} asked for in agentrun/{_name(name)} (key {used})")

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
