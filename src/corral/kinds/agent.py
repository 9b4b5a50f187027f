"""Agent: a reusable setup for runs. A change applies to runs created after it."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, StringConstraints

from ._meta import Name, ObjectMeta
from ._resource import Column, Resource, Spec, Status


def _short_enough(text: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > 64 * 1024:
        raise ValueError("is longer than 64 KiB")
    return text


USD = Annotated[Decimal, PlainSerializer(lambda amount: format(amount, "f"), return_type=str)]


class Model(Spec):
    """Which model answers, and on whose account."""

    access: Literal["Nodus", "OnDemand"] = "Nodus"
    """Nodus: the server chooses, with the operator's keys. OnDemand: the model that `name` says."""
    name: str = ""
    """The model id, such as anthropic/claude-sonnet-5-5 or local/small."""


class EnvVar(Spec):
    """An environment variable of the sandbox. Secret values do not belong here: use `secrets`."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]
    value: Annotated[str, StringConstraints(max_length=32_768)] = ""


class AgentSpec(Spec):
    """Instructions, model, environment and limits."""

    system: Annotated[str, AfterValidator(_short_enough)] = ""
    """The system prompt, at most 64 KiB."""
    model: Model = Model()
    """Which model answers."""
    image: Annotated[str, StringConstraints(max_length=512)] = "nodus/agent-tools"
    """What the sandbox's file system is made of."""
    env: Annotated[list[EnvVar], Field(max_length=256)] = []
    """Environment variables of every command."""
    secrets: Annotated[list[Name], Field(max_length=64)] = []
    """Secrets whose values lie under /run/secrets, one file for each key."""
    max_tokens: Annotated[int, Field(ge=1, le=128_000)] = 8192
    """The most output tokens of one model call."""
    max_tool_calls: Annotated[int, Field(ge=1, le=1000)] = 50
    """The most tool calls of one turn."""
    per_run_max_cost_usd: Annotated[
        USD, Field(alias="perRunMaxCostUSD", ge=Decimal("0.01"), le=Decimal(1000), allow_inf_nan=False)
    ] = Decimal("1.00")
    """A run never spends more than this on its models."""
    state: Literal["Running", "Stopped"] = "Running"
    """Stopped: new runs are refused."""


class AgentStatus(Status):
    """What the server knows of the agent."""

    revision: int = 0
    """The generation that new runs take."""


class Agent(Resource):
    """A setup for runs: instructions, a model, an environment and a spending limit."""

    plural = "agents"
    columns = (
        Column("Name", "metadata.name"),
        Column("Model", "spec.model.name"),
        Column("Access", "spec.model.access"),
        Column("Cap", "spec.perRunMaxCostUSD"),
        Column("State", "spec.state"),
        Column("Age", "metadata.creationTimestamp"),
        Column("Revision", "metadata.generation", wide=True),
        Column("Image", "spec.image", wide=True),
    )

    metadata: ObjectMeta
    spec: AgentSpec = AgentSpec()
    status: AgentStatus = AgentStatus()
