"""SSHKey: a public key by which a user is known over SSH."""

import base64
import binascii
import hashlib
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from ._meta import ObjectMeta
from ._resource import Column, Resource, Spec, Status
from .apikey import User

_TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
_RSA_BITS = 2048


def _public_key(text: str) -> str:
    if "PRIVATE KEY" in text:
        raise ValueError("is a private key; give the line of the .pub file, and treat the private key as leaked")
    kind, blob = _parts(text)
    fields = _fields(blob)
    if fields[0] != kind.encode():
        raise ValueError("says one type and holds another")
    if kind == "ssh-rsa" and (len(fields) != 3 or int.from_bytes(fields[2]).bit_length() < _RSA_BITS):
        raise ValueError(f"is an RSA key below {_RSA_BITS} bits")
    return " ".join(text.split())


def _parts(text: str) -> tuple[str, bytes]:
    words = text.split(None, 2)
    if len(words) < 2 or words[0] not in _TYPES or "\n" in text.strip():
        raise ValueError(f"is not one line `TYPE BASE64 [COMMENT]` with a type of {', '.join(_TYPES)}")
    try:
        return words[0], base64.b64decode(words[1], validate=True)
    except binascii.Error:
        raise ValueError("has a second word that is not base64") from None


def _fields(blob: bytes) -> list[bytes]:
    """The length-prefixed strings of a key (RFC 4253, section 6.6)."""
    fields = []
    while blob:
        size = int.from_bytes(blob[:4])
        if len(blob) < 4 + size:
            raise ValueError("is cut off")
        fields.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    if len(fields) < 2:
        raise ValueError("is cut off")
    return fields


def fingerprint(public_key: str) -> str:
    """`SHA256:...` as `ssh-keygen -l` prints it, of a valid key."""
    digest = hashlib.sha256(_parts(public_key)[1]).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


class SSHKeySpec(Spec):
    """The key."""

    display_name: Annotated[str, StringConstraints(max_length=200)] = ""
    public_key: Annotated[str, StringConstraints(max_length=16_384), AfterValidator(_public_key)]
    """The line of the .pub file: `TYPE BASE64 [COMMENT]`."""


class SSHKeyStatus(Status):
    """Whose key it is."""

    fingerprint: str = ""
    user: User | None = None


class SSHKey(Resource):
    """A user's public SSH key."""

    plural = "sshkeys"
    scope = "Org"
    fixed = frozenset({"publicKey"})
    columns = (
        Column("Name", "metadata.name"),
        Column("Display Name", "spec.displayName"),
        Column("Fingerprint", "status.fingerprint"),
        Column("User", "status.user.id"),
        Column("Age", "metadata.creationTimestamp"),
    )

    metadata: ObjectMeta
    spec: SSHKeySpec
    status: SSHKeyStatus = SSHKeyStatus()
