"""Start agents that were stopped: new runs of them are accepted again.

For example:
  corral start agent/helper
"""

from corral.cli import states
from corral.cli.options import Project, Targets


def command(what: Targets, project: Project = "") -> None:
    states.write(what, "Running", "started", project)
