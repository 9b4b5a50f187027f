"""What a new database begins with: its organization, two projects and a ready-made agent. What exists stays."""

import contextlib
from functools import partial

from corral.kinds import CREATED_BY
from corral.kinds.agent import Agent
from corral.kinds.organization import LOCAL, Organization
from corral.kinds.project import DEFAULT, TEMPLATES, Project
from corral.store import Tx, objects
from corral.store.objects import NameTaken, Stored
from corral.verbs import admission
from corral.verbs.services import OPERATOR, Services

ASSISTANT = "claude-assistant"
_SYSTEM = """\
You are a careful assistant with a Linux machine of your own. Use its shell and files to do the task that you are \
given, and to check what you claim. Prefer small steps, and look at the result of each. When you are done, answer with \
what was asked for, plainly and completely; say what you could not do or are not sure of.\
"""


def _objects() -> list[tuple[str, Organization | Project | Agent]]:
    return [
        ("", Organization.model_validate({"metadata": {"name": LOCAL}})),
        ("", Project.model_validate({"metadata": {"name": DEFAULT}})),
        ("", Project.model_validate({"metadata": {"name": TEMPLATES}, "spec": {"displayName": "Ready-made agents"}})),
        (TEMPLATES, Agent.model_validate({"metadata": {"name": ASSISTANT}, "spec": {"system": _SYSTEM}})),
    ]


async def seed(services: Services) -> None:
    """Makes what is missing. Safe when several servers start at once."""
    for namespace, wanted in _objects():
        # Suppressed: another server was faster.
        with contextlib.suppress(NameTaken):
            await services.store.write(partial(_add, services, namespace, wanted))


async def _add(services: Services, namespace: str, wanted: Organization | Project | Agent, tx: Tx) -> None:
    kind, name = type(wanted).__name__, str(wanted.metadata.name)
    if await objects.get(tx.conn, kind, namespace, name) is not None:
        return
    metadata = {"labels": {CREATED_BY: OPERATOR.user}}
    new = Stored.new(kind, namespace, name, metadata=metadata, spec=wanted.spec.wire())
    admitted = await admission.act(kind, "create")(services, OPERATOR, tx, new, wanted)
    await objects.create(tx, admitted)
