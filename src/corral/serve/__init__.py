"""The composition: the only room that chooses a database, a sandbox driver, model providers and doors."""

from .running import Running, running
from .settings import CannotStart, Report, Settings
from .state import read_server_file

__all__ = ["CannotStart", "Report", "Running", "Settings", "read_server_file", "running"]
