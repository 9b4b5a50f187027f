"""AgentRun: one conversation with an agent, in its own sandbox."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from corral.base import clock

from ._meta import Name, ObjectMeta
from ._resource import Column, Resource, Spec, Status, Subresource
from .agent import Model

INPUT_LIMIT = 256 * 1024

Phase = Literal["Queued", "Running", "Waiting", "Succeeded", "Failed", "Cancelling", "Cancelled"]
FINISHED: tuple[Phase, ...] = ("Succeeded", "Failed", "Cancelled")
"""The phases that nothing follows."""


def _fits(value: Any) -> Any:
    if value is None or value == "":
        raise ValueError("is empty; give the prompt as text or as any JSON value")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text.encode("utf-8", "surrogatepass")) > INPUT_LIMIT:
        raise ValueError("is longer than 256 KiB")
    return value


def _moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if value[:1].isdigit() and "T" not in value and "-" not in value:
            return clock.now() + clock.parse_duration(value)
        return clock.parse_moment(value)
    except OverflowError:
        raise ValueError("is beyond the year 9999") from None


Input = Annotated[Any, AfterValidator(_fits)]


class AgentRunSpec(Spec):
    """What to do, with which agent, and when to stop."""

    agent: Name
    """The Agent that the run follows, at the revision it has when the run is created."""
    input: Input
    """The first prompt: text, or any JSON value, at most 256 KiB."""
    model: Model | None = None
    """Another model, for this run only."""
    keep_alive: bool = False
    """Wait for messages after each answer, instead of finishing."""
    deadline: Annotated[datetime, BeforeValidator(_moment)] | None = None
    """When the run fails with DeadlineExceeded: RFC 3339 with an offset, or a duration from now, such as 30m."""
    parallelism: Annotated[int, Field(ge=0, le=32)] = 0
    """Subagents at once for this run; 0 is Auto."""
    state: Literal["Running", "Cancelled"] = "Running"
    """Cancelled: the run stops at once."""


class Turn(Spec):
    """One prompt and what answering it took."""

    prompt: str
    """`input`, or the key of the message."""
    model: str = ""
    family: str = ""
    routed_by: str = "fixed"
    """How the model was chosen."""
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    """All input tokens, cached ones included."""
    output_tokens: int = 0
    cost_usd: Annotated[str, Field(alias="costUSD")] = "0.00"


class Answer(Spec):
    """The latest answer; `agentrun answer` gives all of it."""

    preview: str = ""
    """The first 4 KiB."""
    size: int = 0
    """Bytes of UTF-8."""
    sha256: str = ""


class Steps(Spec):
    """What was recorded."""

    total: int = 0


class Cost(Spec):
    """Model spend so far, in USD."""

    total_usd: Annotated[str, Field(alias="totalUSD")] = "0.00"
    held_usd: Annotated[str, Field(alias="heldUSD")] = "0.00"
    """Reserved for calls that have not settled."""
    limit_usd: Annotated[str, Field(alias="limitUSD")] = "0.00"


class AgentRunStatus(Status):
    """How far the run is."""

    phase: Phase = "Queued"
    reason: str = ""
    """Why it waits or failed, as one word that programs can rely on."""
    message: str = ""
    """The same for people, with what to do."""
    revision: int = 0
    """The agent's revision that the run follows."""
    model: str = ""
    """The model that was chosen when the run was created."""
    turns: list[Turn] = []
    answer: Answer | None = None
    steps: Steps = Steps()
    cost: Cost = Cost()
    sandbox: str = ""
    dispatches: int = 0
    """How often a worker picked the run up."""
    start_time: datetime | None = None
    completion_time: datetime | None = None
    observed_generation: int = 0


class AgentRun(Resource):
    """One conversation with an Agent. It survives restarts by replaying what was recorded."""

    plural, short = "agentruns", ("ar",)
    categories = ("all",)
    subresources = (
        Subresource("answer"),
        Subresource("steps"),
        Subresource("messages", "create"),
        Subresource("team"),
        Subresource("team-controls", "create"),
    )
    tools = ("apply", "delete", "set_state", "wait", "record", "team")
    columns = (
        Column("Name", "metadata.name"),
        Column("Agent", "spec.agent"),
        Column("Phase", "status.phase"),
        Column("Reason", "status.reason"),
        Column("Turns", "status.turns"),
        Column("Cost", "status.cost.totalUSD"),
        Column("Age", "metadata.creationTimestamp"),
        Column("Model", "status.model", wide=True),
        Column("Steps", "status.steps.total", wide=True),
        Column("Dispatches", "status.dispatches", wide=True),
    )
    fixed = frozenset({"agent", "input", "model", "keepAlive", "deadline", "parallelism"})

    metadata: ObjectMeta
    spec: AgentRunSpec
    status: AgentRunStatus = AgentRunStatus()


class MessageRequest(Spec):
    """The body of `POST agentruns/NAME/messages`."""

    payload: Input
    """The prompt of the next turn: text, or any JSON value, at most 256 KiB."""
    message_key: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = None
    """Delivers the message once, however often it is sent; the server makes one if it is missing."""
    name: Annotated[str, StringConstraints(max_length=253)] = "message"
    """What kind of message it is, for people; it changes nothing."""
