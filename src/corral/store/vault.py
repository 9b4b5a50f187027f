"""Secret values, sealed with AES-256-GCM (NIST SP 800-38D). The key is a file outside the database.

A copy of the database alone opens nothing, and a copy of the key alone neither: back up both, apart. Each value is
bound to its object and version, so that sealed rows cannot be exchanged for one another.
"""

import base64
import contextlib
import json
import os
import secrets
import stat
from pathlib import Path

import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy.ext.asyncio import AsyncConnection

from ._base import Tx
from .schema import vault

_KEY_BYTES = 32
_NONCE_BYTES = 12


class VaultError(Exception):
    """The key file cannot be used, or does not open what is sealed. The text says what to do."""


class Vault:
    """Seals and opens with the key in a file, which is made (mode 0600) when it does not exist."""

    def __init__(self, key_path: str | Path) -> None:
        """Reads or makes the key file. Raises VaultError if others may read it, or it holds no key."""
        self._path = Path(key_path)
        self._cipher = AESGCM(_key(self._path))

    def seal(self, uid: str, version: int, values: dict[str, bytes]) -> tuple[bytes, bytes]:
        """The nonce and the sealed values."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        text = json.dumps({name: base64.b64encode(value).decode() for name, value in values.items()})
        return nonce, self._cipher.encrypt(nonce, text.encode(), _bound_to(uid, version))

    def open(self, uid: str, version: int, nonce: bytes, sealed: bytes) -> dict[str, bytes]:
        """The values again. Raises VaultError if the key is another one, or the sealed bytes were changed."""
        try:
            text = self._cipher.decrypt(nonce, sealed, _bound_to(uid, version))
        except InvalidTag:
            raise VaultError(
                f"the key in {self._path} does not open secret {uid} version {version}: it was sealed with another "
                f"key, or was changed. Put back the {self._path.name} that belongs to this database."
            ) from None
        return {name: base64.b64decode(value) for name, value in json.loads(text).items()}

    async def put(self, tx: Tx, uid: str, version: int, values: dict[str, bytes]) -> None:
        """Stores the values sealed, as that version of the secret. A version is stored once."""
        nonce, sealed = self.seal(uid, version, values)
        row = {"uid": uid, "version": version, "nonce": nonce, "sealed": sealed, "created": tx.now}
        await tx.execute(sa.insert(vault), row)

    async def get(self, conn: AsyncConnection, uid: str, version: int) -> dict[str, bytes] | None:
        """The values of that version, or None if it is not stored. Raises VaultError as `open` does."""
        statement = sa.select(vault.c.nonce, vault.c.sealed).where(vault.c.uid == uid, vault.c.version == version)
        row = (await conn.execute(statement)).first()
        return None if row is None else self.open(uid, version, row.nonce, row.sealed)


async def forget(tx: Tx, uid: str, *, before: int | None = None) -> int:
    """Removes all versions of the secret, or those below `before`; answers with their number."""
    statement = sa.delete(vault).where(vault.c.uid == uid)
    if before is not None:
        statement = statement.where(vault.c.version < before)
    return (await tx.execute(statement)).rowcount


def _bound_to(uid: str, version: int) -> bytes:
    return f"{uid}:{version}".encode()


def _key(path: Path) -> bytes:
    with contextlib.suppress(FileExistsError):
        _make(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise VaultError(f"the vault's key {path} has mode {mode:04o}, so others may read it. Run: chmod 600 {path}")
    text = path.read_text("ascii", "replace").strip()
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise VaultError(f"{path} holds no vault key: it must be {2 * _KEY_BYTES} hex digits. Put back the right file.")
    return key


def _make(path: Path) -> None:
    """Raises FileExistsError. Written aside and linked, so that nobody ever reads half a key."""
    if path.exists():
        raise FileExistsError(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_hex(_KEY_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    finally:
        draft.unlink()
