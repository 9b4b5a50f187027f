"""Secret: named values that go in, and come out only as files of a sandbox."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ._forms import Call, both
from .connection import ENVIRONMENT, Client
from .errors import AlreadyExists, UsageError

PLURAL = "secrets"


async def _create(
    name: str,
    data: Mapping[str, str],
    type: str = "Opaque",
    project: str | None = None,
    *,
    client: Client | None = None,
) -> "Secret":
    """Keep the values under a name; when there is such a secret, they become its new version."""
    secret = Secret(name, data=data, type=type, project=project, client=client)
    core = await secret.client.core(project)
    try:
        await core.create(PLURAL, secret.document(name))
    except AlreadyExists:
        await core.patch(PLURAL, name, {"spec": {"stringData": dict(data)}})
    return secret


class Secret:
    """A secret of the server, or values that become one when an agent that uses them is deployed.

    Agents take them as `secrets=[...]`, by name or as objects; a sandbox has each value as a file in /run/secrets.
    """

    create = Call(_create)

    def __init__(
        self,
        name: str | None = None,
        *,
        data: Mapping[str, str] | None = None,
        type: str = "Opaque",
        project: str | None = None,
        client: Client | None = None,
    ) -> None:
        if not name and not data:
            raise UsageError(
                "a Secret needs a name or data", 'Write Secret("name") or Secret.from_dict({"KEY": "value"}).'
            )
        self._name, self._data, self._type = name, dict(data) if data is not None else None, type
        self._project, self.client = project, client or ENVIRONMENT

    def __repr__(self) -> str:
        return f"<Secret {self._name or 'without a name yet'}>"

    @property
    def name(self) -> str | None:
        """The name; None for values that have not been sent yet."""
        return self._name

    @classmethod
    def from_name(cls, name: str, project: str | None = None, *, client: Client | None = None) -> "Secret":
        """The secret of that name, which exists or will."""
        return cls(name, project=project, client=client)

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> "Secret":
        """A secret of these values, whose name follows from them: the same values are one secret."""
        return cls(data=data)

    @both
    async def update(self, data: Mapping[str, str]) -> None:
        """New values in place of all old ones, as a new version. Runs keep the version they began with."""
        core = await self.client.core(self._project)
        await core.patch(PLURAL, self._known(), {"spec": {"stringData": dict(data)}})
        self._data = dict(data)

    @both
    async def delete(self) -> None:
        """Delete the secret with all its versions. Raises NotFound."""
        await (await self.client.core(self._project)).delete(PLURAL, self._known())

    async def ensure(self, client: Client, project: str | None) -> str:
        """Its name, for an agent of that project; values that were not sent yet are kept at the server first."""
        if self._data is not None and self._name is None:
            # Keyed, so that nobody who sees the name can try out what the values are.
            key = (await client.server()).key.encode()
            text = json.dumps([self._type, sorted(self._data.items())]).encode()
            name = f"sdk-{hmac.new(key, text, hashlib.sha256).hexdigest()[:20]}"
            # One that exists has the same values, as its name says.
            with suppress(AlreadyExists):
                await (await client.core(project)).create(PLURAL, self.document(name))
            self._name = name
        return self._known()

    def document(self, name: str) -> dict[str, Any]:
        """The object as the server takes it."""
        spec = {"type": self._type, "stringData": self._data or {}}
        return {"kind": "Secret", "metadata": {"name": name}, "spec": spec}

    def _known(self) -> str:
        if self._name is None:
            raise UsageError(
                "these values have no name yet", "Use Secret.create(name, data), or deploy an agent first."
            )
        return self._name
