"""Agent: a reusable setup for runs. A change applies to runs created after it."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, StringConstraints, model_validator

from corral.base.paths import own_directory

from ._meta import Name, ObjectMeta
from ._resource import Column, Resource, Spec, Status


def _short_enough(text: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > 64 * 1024:
        raise ValueError("is longer than 64 KiB")
    return text


USD = Annotated[Decimal, PlainSerializer(lambda amount: format(amount, "f"), return_type=str)]


Family = Literal["haiku", "sonnet", "opus", "fable"]


class Model(Spec):
    """Which model answers, and on whose account."""

    access: Literal["Nodus", "OnDemand", "BYOK"] = "Nodus"
    """Nodus: the server chooses, with the operator's keys. OnDemand: the model that `name` says, with the operator's
    keys. BYOK: the model that `name` says, with a key of your own, which is not charged here."""
    name: str = ""
    """The model id, such as anthropic/claude-sonnet-5-5 or local/small; with BYOK as its service writes it."""
    families: Annotated[list[Family], Field(max_length=4)] | None = None
    """Without a name: the families that the server may choose from; all of them when it is missing."""
    protocol: Literal["Anthropic", "OpenAI"] | None = None
    """With access BYOK: whose API it is; Anthropic when it is missing."""
    api_key_secret: Annotated[str, StringConstraints(max_length=253)] = ""
    """With access BYOK: the Secret that holds the key."""
    api_key_field: Annotated[str, StringConstraints(max_length=128)] = ""
    """With access BYOK: which value of the Secret is the key, if it has several and none with the usual name."""

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.access == "BYOK" and not self.api_key_secret:
            raise ValueError("access BYOK needs apiKeySecret, the Secret with the key")
        if self.access == "BYOK" and self.protocol == "OpenAI" and not self.name:
            raise ValueError("access BYOK with protocol OpenAI needs name, the model's id")
        if self.access != "BYOK" and (self.protocol or self.api_key_secret or self.api_key_field):
            raise ValueError("protocol, apiKeySecret and apiKeyField belong to access BYOK")
        if self.access == "OnDemand" and not self.name:
            raise ValueError("access OnDemand needs name, such as anthropic/claude-sonnet-5-5 or local/small")
        if self.families and (self.access == "OnDemand" or self.name):
            raise ValueError("families choose a model, so they do not go with a name")
        return self


class EnvVar(Spec):
    """An environment variable of the sandbox. Secret values do not belong here: use `secrets`."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]
    value: Annotated[str, StringConstraints(max_length=32_768)] = ""


class Egress(Spec):
    """What a sandbox may reach outside."""

    policy: Literal["Deny", "AllowList", "Open"] = "Deny"
    """Deny: nothing. AllowList: the names in `allow`. Open: public addresses."""
    allow: Annotated[list[Annotated[str, StringConstraints(max_length=253)]], Field(max_length=256)] = []
    """Host names, or `*.` and a domain."""
    presets: Annotated[list[Annotated[str, StringConstraints(max_length=63)]], Field(max_length=32)] = []
    """Named lists of hosts."""


class Network(Spec):
    """The sandbox's network."""

    egress: Egress = Egress()


class Continuity(Spec):
    """What stays of a sandbox. A run keeps its files for the whole conversation, also over restarts of the server."""

    mode: Literal["Snapshotted", "Ephemeral"] = "Snapshotted"
    """Snapshotted: a sandbox that has to start again finds its files. Ephemeral: it would begin empty."""
    state_dir: str = ""
    """The directory that stays: the working directory, or one in it; the working directory when it is empty."""


class AgentSpec(Spec):
    """Instructions, model, environment and limits."""

    system: Annotated[str, AfterValidator(_short_enough)] = ""
    """The system prompt, at most 64 KiB."""
    model: Model = Model()
    """Which model answers."""
    image: Annotated[str, StringConstraints(max_length=512)] = "nodus/agent-tools"
    """What the sandbox's file system is made of."""
    working_dir: Annotated[str, AfterValidator(own_directory)] = "/workspace"
    """Where commands start: a directory of the run's own, empty at first."""
    continuity: Continuity = Continuity()
    """What stays of the sandbox while the conversation goes on."""
    network: Network = Network()
    """What the sandbox may reach; a run is refused where the server cannot give that."""
    setup: Annotated[str, StringConstraints(max_length=32_768)] = ""
    """A shell command that prepares the sandbox, once, before the first model call; if it fails, so does the run."""
    env: Annotated[list[EnvVar], Field(max_length=256)] = []
    """Environment variables of every command."""
    secrets: Annotated[list[Name], Field(max_length=64)] = []
    """Secrets whose values lie under /run/secrets, one file for each key."""
    max_tokens: Annotated[int, Field(ge=1, le=128_000)] = 8192
    """The most output tokens of one model call."""
    max_tool_calls: Annotated[int, Field(ge=1, le=1000)] = 50
    """The most tool calls of one turn."""
    max_parallel_agents: Annotated[int, Field(ge=0, le=32)] = 0
    """A ceiling for subagents at once; 0 sets none."""
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
    categories = ("all",)
    tools = ("apply", "delete", "set_state")
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
