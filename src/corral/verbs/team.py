"""The team of a run: its subtasks, and what a person can do next. Runs have no subagents yet: teams are empty."""

from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from corral.kinds import Problem, Reason, Spec
from corral.kinds.agentrun import AgentRun
from corral.store.objects import Stored

from . import access
from .objects import get
from .services import Caller, Services

VERSION = 2
"""Of the view's form."""


class ControlRequest(Spec):
    """The body of `POST agentruns/NAME/team-controls`."""

    task_id: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    action: Literal["Retry", "Redirect", "Cancel"]
    instruction: Annotated[str, StringConstraints(max_length=16_384)] = ""
    request_key: Annotated[str, StringConstraints(min_length=1, max_length=253)]


async def view(services: Services, caller: Caller, namespace: str, name: str) -> dict[str, Any]:
    """Summary, subtasks and verification of the run's team. Raises Problem NotFound."""
    stored = await get(services, caller, AgentRun, namespace, name)
    return {
        "version": VERSION,
        "summary": _summary(stored) | {"completed": 0, "total": 0, "active": 0},
        "items": [],
        "verification": {"state": "None"},
        "concurrency": {"peakModelCalls": 0, "observedCalls": 0},
    }


async def control(
    services: Services, caller: Caller, namespace: str, name: str, request: ControlRequest
) -> dict[str, Any]:
    """Retry, redirect or cancel a subtask. Raises Problem NotFound: there is none."""
    access.check(caller, AgentRun, "write", namespace)
    await get(services, caller, AgentRun, namespace, name)
    text = f"the run {name!r} has no subtask {request.task_id!r}"
    raise Problem(Reason.NotFound, text, fix=f"`corral agentrun team {name}` lists the subtasks.")


def _summary(stored: Stored) -> dict[str, str]:
    phase, reason = stored.status["phase"], stored.status.get("reason", "")
    message = stored.status.get("message") or f"The run is {phase.lower()}."
    if phase == "Succeeded":
        return {"title": "Finished", "message": "The answer is there.", "action": "ViewAnswer"}
    if reason == "WaitingForMessage":
        return {"title": "Waiting for you", "message": "The run waits for a message.", "action": "SendMessage"}
    if phase in ("Failed", "Waiting"):
        return {"title": "Needs attention", "message": message, "action": "InspectRun"}
    return {"title": phase, "message": message, "action": "None"}
