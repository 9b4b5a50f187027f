"""The entry point: it finds verbs without importing them, so that `corral --help` and completion stay quick.

This is also the only place that turns an error into text and an exit code.
"""

import difflib
import os
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from corral import __version__
from corral.base import plugins
from corral.cli import printing, verbs
from corral.cli.failures import BUG, INTERRUPTED, Failure

_HERE = Path(__file__).parent / "verbs"
_ALIASES = {"api-resources": "kinds"}
"""Verbs as users of other programs for this kind of API know them."""


class Verbs(TyperGroup):
    """The verbs that lie in the folder, each imported when it is asked for."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """All verbs by name."""
        return sorted(plugins.names(verbs))

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """The verb of that name; ends with the nearest ones when there is none."""
        cmd_name = _ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in (known := plugins.names(verbs)):
            near = " or ".join(difflib.get_close_matches(cmd_name, known))
            ctx.fail(f"There is no verb {cmd_name!r}." + (f" Did you mean {near}?" if near else ""))
        module = plugins.load(verbs, cmd_name)
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(cmd_name, help=module.__doc__)(module.command)
        command = typer.main.get_command(app)
        command.name = cmd_name
        _keep_examples(command)
        return command

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """The list in the help: one line each, read from the files."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_line(name)) for name in self.list_commands(ctx)])


def _keep_examples(command: Any) -> None:
    """Lines of examples stay lines, where help is wrapped: `\\b` is how Click is told so."""
    command.help = (command.help or "").replace("\nFor example:\n", "\n\b\nFor example:\n")
    for below in getattr(command, "commands", {}).values():
        _keep_examples(below)


def _first_line(verb: str) -> str:
    """The first line of a verb's docstring, without importing it."""
    file = _HERE / f"{verb}.py"
    if not file.is_file():
        return "(from an installed extension)"
    with file.open(encoding="utf-8") as source:
        return source.readline().strip().strip('"')


def _version(wanted: bool) -> None:
    if wanted:
        printing.out(f"corral {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Verbs,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(epilog="`corral VERB --help` explains a verb.")
def corral(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    context: str = typer.Option(
        "", metavar="NAME", help="A server of `corral config list`, instead of the one in use. [env: CORRAL_CONTEXT]"
    ),
) -> None:
    """Run AI agents, each in a sandbox of its own, on your machines."""
    if context:
        # The environment is where the connection looks, and what editors and other programs started here inherit.
        os.environ["CORRAL_CONTEXT"] = context


def main() -> None:
    """Run the command that `sys.argv` names and exit."""
    for stream in (sys.stdout, sys.stderr):
        _never_fail(stream)
    try:
        typer.main.get_command(app).main(prog_name="corral")
    except Failure as failure:
        for line in failure.lines():
            printing.err(line)
        sys.exit(failure.code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception:
        printing.err(
            f"{traceback.format_exc()}\nThis is a bug in corral {__version__}. Please report it with this text."
        )
        sys.exit(BUG)


def _never_fail(stream: TextIO) -> None:
    """Text that the terminal's encoding lacks is shown escaped instead of ending the program."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
