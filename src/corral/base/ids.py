"""Identifiers: random ones for objects, content digests for what is stored by its content."""

import hashlib
import secrets
import uuid

# No vowels and no look-alikes: a generated name neither spells a word nor is misread (the alphabet of Kubernetes).
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


def new_uid() -> str:
    """A UUID4 in its usual text form; never used twice."""
    return str(uuid.uuid4())


def new_suffix(length: int = 5) -> str:
    """Random lowercase letters and digits that end a generated name."""
    return "".join(secrets.choice(_SUFFIX) for _ in range(length))


def new_key() -> str:
    """A bearer key with 256 random bits."""
    return f"nodus_{secrets.token_urlsafe(32)}"


def digest(data: bytes) -> str:
    """The SHA-256 of the data as 64 lowercase hex digits."""
    return hashlib.sha256(data).hexdigest()
