"""Create objects that files describe, or a run, a secret, a project or an API key from flags.

Files may leave out metadata.name and give metadata.generateName instead.

For example:
  corral create -f run.yaml
  corral create agentrun count-lines --agent helper --prompt "How many lines has this program?"
  corral create secret tokens --from-literal github=...
  corral create project research
  corral create apikey ci --scope agentruns:write --scope '*:read' --expires 30d
"""

import base64
from pathlib import Path
from typing import Annotated, Any

import typer

from corral.base import clock
from corral.cli import batches, connection, options, printing, targets
from corral.cli.failures import usage
from corral.cli.options import DryRun, Project, Shape, duration
from corral.cli.targets import Target
from corral.sdk import Client

app = typer.Typer(help=__doc__, add_completion=False, rich_markup_mode=None, invoke_without_command=True)
Name = Annotated[str, typer.Argument(help="The new object's name.")]


@app.callback()
def files(
    ctx: typer.Context,
    files: options.Files = [],  # noqa: B006 - Typer reads the default, nobody changes it
    dry_run: DryRun = "",
    output: Shape = "",
    project: Project = "",
) -> None:
    if ctx.invoked_subcommand is not None:
        _belong_to_files(ctx)
        return
    if not files:
        raise usage("nothing is to be created", "Use -f FILE, or see `corral create --help` for the kinds.")
    batches.run(files, targets.described, _make, dry_run=dry_run, output=output, project=project)


async def _make(client: Client, target: Target, document: dict[str, Any], dry_run: bool) -> tuple[str, dict[str, Any]]:
    return "created", await client.create(target.plural, document, dry_run=dry_run)


def _belong_to_files(ctx: typer.Context) -> None:
    """Raises Failure for an option that stands before a kind, where it would do nothing."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            option = parameter.opts[0]
            fix = "Write `corral create -f FILE`, or options after the kind: `corral create KIND NAME -p PROJECT`."
            raise usage(f"{option} before a kind has no meaning", fix)


@app.command()
def agentrun(
    name: Name,
    agent: Annotated[str, typer.Option(help="The agent to follow.")],
    prompt: Annotated[str, typer.Option(help="The first prompt.")],
    keep_alive: Annotated[bool, typer.Option("--keep-alive", help="Wait for messages after each answer.")] = False,
    deadline: Annotated[str, typer.Option(metavar="DURATION", help="Fail after this long, such as 30m.")] = "",
    parallelism: Annotated[int, typer.Option(metavar="N", help="Subagents at once; 0: the run decides.", min=0)] = 0,
    project: Project = "",
) -> None:
    """Start a run of an agent.

    \b
    For example:
      corral create agentrun count-lines --agent helper --prompt "How many lines?" --deadline 30m
    """
    spec: dict[str, Any] = {"agent": agent, "input": prompt}
    if keep_alive:
        spec["keepAlive"] = True
    if parallelism:
        spec["parallelism"] = parallelism
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
    project: Project = "",
) -> None:
    """Store values that sandboxes get as files; nobody can read them back.

    \b
    For example:
      corral create secret tokens --from-literal github=... --from-file key=id_ed25519
    """
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


@app.command("project")
def new_project(
    name: Name,
) -> None:
    """Make a project: a place for agents, runs and secrets of their own.

    \b
    For example:
      corral create project research
    """
    _create("", "projects", "Project", name, {})


@app.command()
def apikey(
    name: Name,
    scopes: Annotated[
        list[str], typer.Option("--scope", metavar="SCOPE", help="KIND:read, KIND:write, *:read, or * for all.")
    ],
    projects: Annotated[
        list[str] | None, typer.Option("--only-project", metavar="NAME", help="Only for this project.")
    ] = None,
    user: Annotated[str, typer.Option(help="Whom it speaks for, if not you; only for the operator.")] = "",
    expires: Annotated[str, typer.Option(metavar="DURATION", help="Invalid after this long, such as 30d.")] = "",
) -> None:
    """Make a key with the given scopes, and print it: it is shown this once.

    \b
    For example:
      corral create apikey ci --scope agentruns:write --scope '*:read' --only-project research --expires 30d
    """
    spec: dict[str, Any] = {"displayName": name, "scopes": scopes}
    if projects:
        spec["projects"] = projects
    if user:
        spec["user"] = user
    if expires:
        spec["expirationTime"] = clock.rfc3339(clock.now() + duration(expires))

    async def work(client: Client) -> None:
        made = await client.create("apikeys", {"kind": "APIKey", "metadata": {"name": name}, "spec": spec})
        printing.err(f"apikey/{name} created. Keep this key: it is not shown again.")
        printing.out(str(made["status"]["key"]))

    connection.run("", work)


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
