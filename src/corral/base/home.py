"""Where an installation keeps its state."""

import os
from pathlib import Path


def home() -> Path:
    """`$CORRAL_HOME`, or `corral` in the user's XDG data directory. It is not created here."""
    if configured := os.environ.get("CORRAL_HOME"):
        return Path(configured).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "corral"
