"""List the models of this machine, or download one.

They need no server; the files lie in `models` of the home.

For example:
  corral models list
  corral models pull
"""

from typing import Annotated

import anyio
import typer

from corral.base.home import home
from corral.cli import printing, progress
from corral.cli.failures import Failure, usage
from corral.gateway.local import pins, weights
from corral.gateway.local.transfer import WeightsUnavailable

app = typer.Typer(help=__doc__, add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.command("list")
def show() -> None:
    """List the models that run on this machine without a key, and whether they are here."""
    directory = home()
    chosen = weights.choose(directory)
    rows = []
    for model in pins.MODELS.values():
        aliases = [alias for alias, name in pins.ALIASES.items() if name == model.name]
        here = "yes" if weights.ready(model, directory) else "no"
        rows.append([model.name, aliases, f"{model.size / 1e6:.0f} MB", here, "yes" if model.name == chosen else "no"])
    for line in printing.table(["Name", "Aliases", "Size", "Here", "Default"], rows):
        printing.out(line)


@app.command()
def pull(
    name: Annotated[
        str, typer.Argument(help="A name or alias of `models list`; the machine's default if left out.")
    ] = "",
) -> None:
    """Download a model and check it against its pinned SHA-256."""
    directory = home()
    try:
        model = weights.find(name or weights.choose(directory))
    except LookupError as error:
        raise usage(f"there is no model {error.args[0]}", "See `corral models list`.") from None

    async def work() -> None:
        with progress.shown() as report:
            printing.out(str(await weights.pull(model, directory, report)))

    try:
        anyio.run(work)
    except WeightsUnavailable as error:
        raise Failure(str(error), reason="WeightsUnavailable", fix=error.fix) from error
