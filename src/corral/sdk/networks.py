"""Egress: what the sandboxes of an agent may reach."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Egress:
    """The network policy of an agent's sandboxes; make one with `deny`, `open` or `allow`."""

    policy: str
    hosts: tuple[str, ...] = ()

    @classmethod
    def deny(cls) -> "Egress":
        """No network."""
        return cls("Deny")

    @classmethod
    def open(cls) -> "Egress":
        """Everything that is public."""
        return cls("Open")

    @classmethod
    def allow(cls, hosts: Iterable[str]) -> "Egress":
        """These hosts only; `*.example.com` stands for all below it."""
        return cls("AllowList", tuple(hosts))

    def wire(self) -> dict[str, Any]:
        """The `spec.network` of an Agent."""
        return {"egress": {"policy": self.policy} | ({"allow": list(self.hosts)} if self.hosts else {})}
