"""Show and change the contexts: the servers that you have logged in to.

The context in use is what every command speaks to; `local` is the `corral up` of this machine.

For example:
  corral config list
  corral config use research
  corral config set research --project papers
"""

from dataclasses import asdict, replace
from typing import Annotated

import typer

from corral.cli import completions, contexts, documents, printing
from corral.cli.failures import usage

app = typer.Typer(help=__doc__, add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A name of `corral config list`.", autocompletion=completions.named_contexts)]


@app.command("list")
def show_all() -> None:
    """List the contexts, and which one is in use."""
    known = contexts.load()
    current = known.current or contexts.LOCAL
    rows = [[contexts.LOCAL, "corral up with this home", "", ""]]
    rows += [[name, c.url, c.org, c.project] for name, c in known.contexts.items()]
    marked = [[row[0], "yes" if row[0] == current else "no", *row[1:]] for row in rows]
    for line in printing.table(["Name", "In use", "Server", "Organisation", "Project"], marked):
        printing.out(line)


@app.command()
def use(name: Name) -> None:
    """Use a context from now on."""
    known = contexts.load()
    if name != contexts.LOCAL:
        contexts.find(known, name)
    known.current = name
    contexts.save(known)
    printing.out(f"The context in use is {name}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="A context; the one in use if left out.")] = "") -> None:
    """Print a context, without its key, and where the configuration is."""
    known = contexts.load()
    name = name or known.current or contexts.LOCAL
    found = {} if name == contexts.LOCAL else asdict(contexts.find(known, name))
    printing.out(documents.as_yaml({"name": name, **found, "file": str(contexts.file())}))


@app.command("set")
def change(
    name: Name,
    project: Annotated[str, typer.Option("--project", "-p", help="The project to work in.")] = "",
    url: Annotated[str, typer.Option(help="The server's new address.")] = "",
) -> None:
    """Change a context's project or its server's address."""
    known = contexts.load()
    wanted = {field: value for field, value in (("project", project), ("url", url)) if value}
    if not wanted:
        raise usage("nothing is to be changed", "Give --project or --url.")
    if url and not url.startswith(("http://", "https://")):
        raise usage(f"--url {url} is not the address of a server", "Write such as http://127.0.0.1:8700.")
    known.contexts[name] = replace(contexts.find(known, name), **wanted)
    contexts.save(known)
    printing.out(f"The context {name} is changed")


@app.command()
def remove(name: Name) -> None:
    """Forget a context and its key, which stays valid on the server (see `corral logout`)."""
    contexts.remove(name)
    printing.out(f"The context {name} is gone")
