"""Print the version of this program.

It asks no server, so it also works where none is.

For example:
  corral version
"""

import platform

from corral import __version__
from corral.cli import printing


def command() -> None:
    printing.out(f"corral {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
