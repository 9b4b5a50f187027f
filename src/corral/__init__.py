"""Corral: a self-hosted platform for fleets of AI agents that people can trust.

The names here are the Python SDK, docs/sdk.md. They are imported when they are first used, so that `import corral`
costs nothing and does nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corral.sdk import errors
    from corral.sdk.agents import Agent, ClaudeAgent, ModelAgent
    from corral.sdk.connection import Client
    from corral.sdk.networks import Egress
    from corral.sdk.runs import AgentRun
    from corral.sdk.secrets import Secret
    from corral.sdk.views import View

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentRun",
    "ClaudeAgent",
    "Client",
    "Egress",
    "ModelAgent",
    "Secret",
    "View",
    "__version__",
    "errors",
]

_HOMES = {
    "Agent": "agents",
    "AgentRun": "runs",
    "ClaudeAgent": "agents",
    "Client": "connection",
    "Egress": "networks",
    "ModelAgent": "agents",
    "Secret": "secrets",
    "View": "views",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("corral.sdk.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"corral.sdk.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
