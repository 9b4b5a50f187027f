"""The Python client: what programs, and our own command line, speak to a server with."""

from ._streams import Event
from .client import Applied, Client
from .errors import ApiError, Cause, Unreachable

__all__ = ["ApiError", "Applied", "Cause", "Client", "Event", "Unreachable"]
