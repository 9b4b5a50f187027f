"""What verbs work with, and who asks."""

from dataclasses import dataclass
from datetime import datetime

from corral.gateway.router import Gateway
from corral.kinds.project import TEMPLATES
from corral.store import Store
from corral.store.vault import Vault


@dataclass(frozen=True)
class Services:
    """The open store and what admission looks at."""

    store: Store
    gateway: Gateway
    vault: Vault
    operator_digest: str = ""
    """The SHA-256 of the operator's key, which is not in the database; empty: there is none."""


@dataclass(frozen=True)
class Caller:
    """Who asks, and what the key allows. Without scopes it allows nothing."""

    user: str
    """Goes into the label `nodus.dev/created-by`."""
    scopes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    """The only projects that the key reaches; empty: all."""
    key: str = ""
    """The uid of the APIKey, or `operator`."""
    key_name: str = ""
    expires: datetime | None = None

    @property
    def principal(self) -> str:
        """What an Idempotency-Key belongs to: the same one, sent with another key, is another request."""
        return f"{self.user}/{self.key}"

    @property
    def operates(self) -> bool:
        """Whether everything is allowed, everywhere."""
        return "*" in self.scopes and not self.projects

    def enters(self, project: str) -> bool:
        """Whether the key reaches the project. The ready-made templates are for everybody."""
        return not self.projects or project in (*self.projects, TEMPLATES)


OPERATOR = Caller("operator", scopes=("*",), key="operator")
"""Whoever has the key in the server's home, or the passing key of a single command."""
