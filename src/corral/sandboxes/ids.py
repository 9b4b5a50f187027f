"""The ids of sandboxes and commands: they are also names of files, so they are checked before anything else."""

import re

from ._base import SandboxError

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_id(kind: str, text: str) -> str:
    """The id, when it is one; `kind` names it in the error. Raises SandboxError."""
    if not _ID.fullmatch(text):
        raise SandboxError(f"{kind} {text!r}: use at most 64 letters, digits, - and _")
    return text
