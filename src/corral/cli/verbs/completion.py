"""Print a script that completes verbs, kinds and names in your shell.

For example:
  source <(corral completion bash)
  corral completion zsh > "${fpath[1]}/_corral"
  corral completion fish > ~/.config/fish/completions/corral.fish
"""

from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # documented by its use in --show-completion only

from corral.cli import printing
from corral.cli.failures import usage

_SHELLS = ("bash", "zsh", "fish")


def command(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=lambda: _SHELLS)],
) -> None:
    if shell not in _SHELLS:
        raise usage(f"{shell} is not a shell that can be helped", f"Write {', '.join(_SHELLS)}.")
    printing.out(get_completion_script(prog_name="corral", complete_var="_CORRAL_COMPLETE", shell=shell))
