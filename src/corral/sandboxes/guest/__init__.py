"""The program that runs inside sandboxes: its C sources, and the compiled binaries with their hashes in `bin`."""

import hashlib
import json
import platform
from dataclasses import dataclass
from pathlib import Path

from .._base import SandboxError

_BIN = Path(__file__).parent / "bin"


@dataclass(frozen=True)
class Guest:
    """The program for this machine, checked against its recorded hash."""

    path: Path
    data: bytes


def load(directory: Path = _BIN, machine: str = "") -> Guest:
    """Read and check the program for a machine (default: this one). Raises SandboxError with the fix."""
    machine = machine or platform.machine()
    path = directory / f"sbx-{machine}"
    remedy = "reinstall corral from a wheel, or run `python hatch_build.py` in a source tree"
    try:
        recorded = json.loads((directory / "sbx.sha256").read_text("utf-8"))["binaries"]
        data = path.read_bytes()
    except (OSError, ValueError, KeyError) as error:
        raise SandboxError(f"the sandbox program for {machine} is not installed ({error}); {remedy}") from error
    if hashlib.sha256(data).hexdigest() != recorded.get(machine):
        raise SandboxError(f"{path} is not the program that was built: its SHA-256 differs from the record; {remedy}")
    return Guest(path, data)
