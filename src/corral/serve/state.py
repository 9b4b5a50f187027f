"""Where a server keeps its state: the database, the key of its door, and the file by which commands find it."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from corral.base import ids
from corral.store import Store, StoreError, StoreInUse
from corral.store.postgres import open_postgres
from corral.store.sqlite import open_sqlite

from .settings import CannotStart, Settings

_SERVER_FILE = "server.json"


@asynccontextmanager
async def open_state(settings: Settings) -> AsyncIterator[tuple[Store, Path, list[str]]]:
    """The open store, the directory for everything beside it, and notes for the user. Raises CannotStart.

    One process holds a SQLite file. A second command with the same home works in a directory of its own.
    """
    home = _private(settings.home)
    notes: list[str] = []
    store = open_postgres(settings.database) if settings.database else open_sqlite(home / "corral.db")
    try:
        await store.start()
    except StoreInUse as error:
        if not settings.only_own_runs:
            raise CannotStart(str(error), "Use the server that runs: corral env tells how to reach it.") from error
        home = _private(home / "parallel" / ids.new_suffix(8))
        notes.append(f"state    {home} (another command is using {settings.home})")
        store = open_sqlite(home / "corral.db")
        await store.start()
    except StoreError as error:
        raise CannotStart(str(error)) from error
    try:
        yield store, home, notes
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


def _private(directory: Path) -> Path:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        fix = "Set CORRAL_HOME to a directory that can be written."
        raise CannotStart(f"{directory} cannot be made: {error.strerror}", fix) from error
    return directory


def lasting_key(home: Path) -> str:
    """The server's key, made at its first start and kept, so that clients stay configured."""
    path = home / "key"
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        key = passing_key()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{key}\n")
        return key


def passing_key() -> str:
    """A new key."""
    return ids.new_key()


def write_server_file(home: Path, url: str, key: str) -> Path:
    """Tell the commands of this home where their server is."""
    path = home / _SERVER_FILE
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": url, "key": key, "pid": os.getpid()}, file)
    return draft.replace(path)


def read_server_file(home: Path) -> tuple[str, str] | None:
    """URL and key of the server that runs for this home, if one does."""
    try:
        known = json.loads((home / _SERVER_FILE).read_text("utf-8"))
        os.kill(int(known["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(known["url"]), str(known["key"])
