"""The memory of the platform, and the only room with SQL: objects and their changes, the journal, blobs, secrets."""

from ._base import (
    CommitUncertain,
    Store,
    StoreClosed,
    StoreError,
    StoreInUse,
    StoreTooNew,
    StoreUnavailable,
    Tx,
    position,
)

__all__ = [
    "CommitUncertain",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreInUse",
    "StoreTooNew",
    "StoreUnavailable",
    "Tx",
    "position",
]
