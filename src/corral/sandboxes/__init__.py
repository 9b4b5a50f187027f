"""Machines for runs: drivers start and end sandboxes, the supervisor inside runs their commands."""

from ._base import (
    CommandResult,
    CommandState,
    Driver,
    DriverSettings,
    Entry,
    Limits,
    OnOutput,
    Probe,
    Sandbox,
    SandboxError,
    SandboxGone,
    SandboxSpec,
    Stream,
)

__all__ = [
    "CommandResult",
    "CommandState",
    "Driver",
    "DriverSettings",
    "Entry",
    "Limits",
    "OnOutput",
    "Probe",
    "Sandbox",
    "SandboxError",
    "SandboxGone",
    "SandboxSpec",
    "Stream",
]
