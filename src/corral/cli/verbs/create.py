"""Create a run or a secret from flags."""

import base64
from pathlib import Path
from typing import Annotated, Any

import typer

from corral.cli import connection, printing
from corral.cli.failures import usage
from corral.cli.options import Project, duration
from corral.sdk import Client

app = typer.Typer(help=__doc__, add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The new object's name.")]


@app.command()
def agentrun(
    name: Name,
    agent: Annotated[str, typer.Option(help="The agent to follow.")],
    prompt: Annotated[str, typer.Option(help="The first prompt.")],
    keep_alive: Annotated[bool, typer.Option("--keep-alive", help="Wait for messages after each answer.")] = False,
    deadline: Annotated[str, typer.Option(metavar="DURATION", help="Fail after this long, such as 30m.")] = "",
    project: Project = "default",
) -> None:
    """Start a run of an agent."""
    spec: dict[str, Any] = {"agent": agent, "input": prompt}
    if keep_alive:
        spec["keepAlive"] = True
    if deadline:
        duration(deadline)
        spec["deadline"] = deadline
    _create(project, "agentruns", "AgentRun", name, spec)


@app.command()
def secret(
    name: Name,
    literals: Annotated[
        list[str] | None, typer.Option("--from-literal", metavar="KEY=VALUE", help="A value, as it is.")
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--from-file", metavar="KEY=FILE", help="A value from a file of text or bytes.")
    ] = None,
    project: Project = "default",
) -> None:
    """Store values that sandboxes get as files; nobody can read them back."""
    spec: dict[str, dict[str, str]] = {}
    for literal in literals or ():
        key, value = _pair(literal, "--from-literal KEY=VALUE")
        spec.setdefault("stringData", {})[key] = value
    for file in files or ():
        key, path = _pair(file, "--from-file KEY=FILE")
        field, value = _content(path)
        spec.setdefault(field, {})[key] = value
    if not spec:
        raise usage("the secret has no values", "Give at least one --from-literal or --from-file.")
    _create(project, "secrets", "Secret", name, spec)


def _create(project: str, plural: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    async def work(client: Client) -> None:
        made = await client.create(plural, {"kind": kind, "metadata": {"name": name}, "spec": spec})
        printing.out(f"{kind.lower()}/{made['metadata']['name']} created")

    connection.run(project, work)


def _pair(text: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        # The text may be a secret value: it is not repeated.
        raise usage(f"a value has no key: it must be {form}")
    return key, value


def _content(path: str) -> tuple[str, str]:
    """The field of the spec for a file's bytes, and its value there."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}") from None
    return "data", base64.b64encode(data).decode()
