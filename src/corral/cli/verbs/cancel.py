"""Stop runs at once; what they recorded stays.

For example:
  corral cancel agentrun/count-lines
"""

from corral.cli import states
from corral.cli.options import Project, Targets


def command(what: Targets, project: Project = "") -> None:
    states.write(what, "Cancelled", "cancelled", project)
