"""What verbs work with, and who asks."""

from dataclasses import dataclass

from corral.gateway.router import Gateway
from corral.store import Store
from corral.store.vault import Vault


@dataclass(frozen=True)
class Services:
    """The open store and what admission looks at."""

    store: Store
    gateway: Gateway
    vault: Vault


@dataclass(frozen=True)
class Caller:
    """Who asks: the user, and the key that idempotency and `created-by` go by."""

    user: str
