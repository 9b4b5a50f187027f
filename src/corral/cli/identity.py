"""Who we are for a server, and what that permits."""

from collections.abc import Mapping
from typing import Any

from corral.sdk import Client

READING = ("get", "list", "watch")


async def whoami(client: Client) -> dict[str, Any]:
    """The server's word on who the key speaks for."""
    document = (await client.request("GET", "/auth/whoami")).json()
    return document if isinstance(document, dict) else {}


def permits(me: Mapping[str, Any], verb: str, plural: str, project: str) -> bool:
    """Whether these scopes and projects allow the verb on the kind.

    `*` allows all, `KIND:write` every verb that changes, `KIND:read` and `*:read` reading; no list of projects, or `*`
    in it, means all of them.
    """
    scopes, projects = set(me.get("scopes") or ()), me.get("projects")
    if projects and project not in projects and "*" not in projects:
        return False
    needed = {"*", f"{plural}:read", "*:read"} if verb in READING else {"*", f"{plural}:write"}
    return bool(scopes & needed)
