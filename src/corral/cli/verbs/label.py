"""Set or remove labels of objects.

Labels are for selecting, as in `corral get agents -l team=search`. A value that is there already is replaced.

For example:
  corral label agent/helper team=search
  corral label agent/helper team-
"""

from corral.cli import marks
from corral.cli.options import Project


def command(what: marks.What, project: Project = "") -> None:
    marks.write(what, "labels", "labeled", project)
