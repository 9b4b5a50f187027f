"""The paths of the OpenAPI document below objects: what a run has besides its object."""

from typing import Any

from corral.kinds import Reason

from .operations import JSON, NAME, NAMESPACE, PROJECT, TEXT, Operation, content, operation, parameter
from .schemas import ref

RUN = f"{PROJECT}/agentruns/{{name}}"


def _of_run(name: str, text: str, action: str, *refusals: Reason, **more: Any) -> Operation:
    parameters = (NAMESPACE, NAME, *more.pop("parameters", ()))
    reasons = (Reason.NotFound, *refusals)
    return operation(name, text, kind="AgentRun", action=action, parameters=parameters, refusals=reasons, **more)


answer = _of_run(
    "readAgentRunAnswer",
    "Read the latest answer of a run; while a turn is pending, the request is held for a while.",
    "get",
    Reason.Unavailable,
    answers={200: content("The text itself.", {"type": "string"}, TEXT)},
)
steps = _of_run(
    "readAgentRunSteps",
    "Read what a run did.",
    "get",
    parameters=(
        parameter("after", "Only what changed after this version.", type="integer", minimum=-1),
        parameter("follow", "Stream the changes, one a line, until the run has ended.", type="boolean"),
    ),
    answers={
        200: {
            "description": "The steps; with `follow`, one RunEvent a line.",
            "content": {JSON: {"schema": ref("StepList")}, "application/x-ndjson": {"schema": ref("RunEvent")}},
        }
    },
)
messages = _of_run(
    "createAgentRunMessage",
    "Send a message to a run, which is delivered once.",
    "post",
    Reason.BadRequest,
    Reason.AgentRunFinished,
    Reason.Invalid,
    body={JSON: {"schema": ref("MessageRequest")}},
    answers={202: content("The message is recorded.", ref("Receipt"))},
)
team = _of_run(
    "readAgentRunTeam",
    "Read what the subtasks of a run do.",
    "get",
    answers={200: content("The team; without items for a run without subtasks.", ref("Team"))},
)
team_controls = _of_run(
    "createAgentRunTeamControl",
    "Retry, redirect or cancel a subtask of a run.",
    "post",
    Reason.BadRequest,
    Reason.Conflict,
    Reason.Invalid,
    body={JSON: {"schema": ref("ControlRequest")}},
    answers={202: content("The control is recorded.", ref("Receipt"))},
)

paths = {
    f"{RUN}/answer": {"get": answer},
    f"{RUN}/steps": {"get": steps},
    f"{RUN}/messages": {"post": messages},
    f"{RUN}/team": {"get": team},
    f"{RUN}/team-controls": {"post": team_controls},
}
