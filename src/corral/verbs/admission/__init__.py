"""What a kind asks of a new or changed object before it is stored: one file for a kind that asks anything.

A module may have `create`, `update` and `delete`; each runs in the transaction of the write and may refuse with a
Problem.
"""

import sys
from collections.abc import Awaitable
from typing import Any, Protocol

from corral.base import plugins
from corral.kinds import Resource
from corral.store import Tx
from corral.store.objects import Stored
from corral.verbs.services import Caller, Services


class Admission(Protocol):
    """What the module of a kind may hold."""

    def create(self, services: Services, caller: Caller, tx: Tx, new: Stored, asked: Resource) -> Awaitable[Stored]:
        """The object to store, with what the server adds."""
        ...

    def update(
        self, services: Services, caller: Caller, tx: Tx, old: Stored, new: Stored, asked: Resource
    ) -> Awaitable[Stored]:
        """The object to store in place of `old`."""
        ...

    def delete(self, services: Services, caller: Caller, tx: Tx, old: Stored) -> Awaitable[None]:
        """What goes with the object."""
        ...


class _Anything:
    """The admission of a kind that asks nothing."""

    async def create(self, services: Services, caller: Caller, tx: Tx, new: Stored, asked: Resource) -> Stored:
        return new

    async def update(
        self, services: Services, caller: Caller, tx: Tx, old: Stored, new: Stored, asked: Resource
    ) -> Stored:
        return new

    async def delete(self, services: Services, caller: Caller, tx: Tx, old: Stored) -> None:
        return None


_here = sys.modules[__name__]
_anything = _Anything()


def act(kind: str, name: str) -> Any:
    """The function `name` of the kind's admission."""
    if kind.lower() in plugins.names(_here):
        module = plugins.load(_here, kind.lower())
        return getattr(module, name, getattr(_anything, name))
    return getattr(_anything, name)
