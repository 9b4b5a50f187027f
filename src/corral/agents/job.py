"""What a run was admitted with: pinned when it is created, so that no later change of anything alters it."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from corral.gateway.call import Price

PROGRAM = "agentrun"
"""What the store calls the executions that are runs of agents."""


@dataclass(frozen=True)
class PinnedSecret:
    """A version of a secret."""

    uid: str
    version: int


@dataclass(frozen=True)
class OwnKey:
    """A key of the user's own: whose API it opens, and where it lies."""

    protocol: str
    secret: PinnedSecret
    field: str


@dataclass(frozen=True)
class PinnedModel:
    """A model and its price on the day of admission."""

    id: str
    """With the provider, such as anthropic/claude-sonnet-5-5."""
    price: Price
    own: OwnKey | None = None
    """Set when the calls go on the user's own account: nothing is charged, and an interrupted call needs a person."""

    @property
    def free(self) -> bool:
        """Whether a call costs nobody anything, so that it may be repeated."""
        return self.own is None and not any(asdict(self.price).values())


@dataclass(frozen=True)
class Job:
    """Everything that a run does depends on this and on what it meets."""

    run: str
    """The run's name."""
    prompt: Any
    keep_alive: bool
    system: str
    max_tokens: int
    max_tool_calls: int
    model: PinnedModel
    image: str
    working_dir: str = "/workspace"
    setup: str = ""
    env: dict[str, str] = field(default_factory=dict)
    secrets: list[PinnedSecret] = field(default_factory=list)
    keep_sandbox: bool = False

    def record(self) -> dict[str, Any]:
        """The job as JSON, for the store."""
        return asdict(self)

    @classmethod
    def load(cls, record: dict[str, Any]) -> "Job":
        """The job that `record` wrote."""
        model = _model(record["model"])
        secrets = [PinnedSecret(**secret) for secret in record["secrets"]]
        return cls(**{**record, "model": model, "secrets": secrets})


def _model(record: dict[str, Any]) -> PinnedModel:
    own = record["own"]
    key = OwnKey(own["protocol"], PinnedSecret(**own["secret"]), own["field"]) if own else None
    return PinnedModel(record["id"], Price(**record["price"]), key)


def as_text(prompt: Any) -> str:
    """A prompt as the model reads it: text as it is, any other JSON value as JSON."""
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False, indent=2)
