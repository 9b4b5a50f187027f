"""What the store raises of its own. Errors of the database driver that nobody can act upon pass through unchanged.

StoreError
|-- StoreClosed        the store is not started, or is closing
|-- StoreUnavailable   the database could not be reached, or refused again and again: nothing was written
|-- CommitUncertain    the connection broke during commit: written or not, read to find out
|-- StoreInUse         another process holds the SQLite file
`-- StoreTooNew        the database was made by a newer version of the program
"""

from pathlib import Path


class StoreError(Exception):
    """The base of the errors here."""


class StoreClosed(StoreError):
    """The store does not take writes: it is not started, or is closing."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or refused a write for a passing reason several times. Nothing was written."""


class CommitUncertain(StoreError):
    """The connection broke while a commit was under way, so the write may or may not have happened."""

    def __init__(self) -> None:
        super().__init__(
            "the connection to the database broke during a commit; read again to learn whether it was done"
        )


class StoreInUse(StoreError):
    """Another process holds the SQLite file. `pid` is 0 if it is not known."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path, self.pid = path, pid
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"the database {path} is in use by {holder}; stop it, or use another directory. "
            "Several processes can share a Postgres database, not a SQLite file."
        )


class StoreTooNew(StoreError):
    """The database has a revision that this version of the program does not know."""

    def __init__(self, revision: str, known: str) -> None:
        super().__init__(
            f"the database has revision {revision}, but this version knows only revisions up to {known}; "
            "run the version that made it, or a newer one"
        )
