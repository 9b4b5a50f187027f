"""Set or remove annotations of objects.

Annotations are notes for people and tools; objects are not selected by them.

For example:
  corral annotate agent/helper owner="the search team"
  corral annotate agent/helper owner-
"""

from corral.cli import marks
from corral.cli.options import Project


def command(what: marks.What, project: Project = "") -> None:
    marks.write(what, "annotations", "annotated", project)
