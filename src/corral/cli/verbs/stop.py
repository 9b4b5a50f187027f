"""Stop agents: new runs of them are refused, and runs that have begun go on.

For example:
  corral stop agent/helper
"""

from corral.cli import states
from corral.cli.options import Project, Targets


def command(what: Targets, project: Project = "") -> None:
    states.write(what, "Stopped", "stopped", project)
