"""What a program writes about an agent, as the spec of the server."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypedDict

from .errors import UsageError
from .networks import Egress
from .secrets import Secret


class Definition(TypedDict, total=False):
    """The arguments of an agent, apart from its name. All are optional; the server has defaults."""

    system: str | None
    """The system prompt."""
    model: str | None
    """A model's id, such as anthropic/claude-sonnet-5-5; the server chooses when it is missing."""
    families: Sequence[str] | None
    """The families that the server may choose from: haiku, sonnet, opus, fable."""
    access: str | None
    """On whose account: Nodus, OnDemand or BYOK. It follows from the other arguments."""
    api_key_secret: str | None
    """A Secret with your own key for the model's provider."""
    api_key_field: str | None
    """Which value of that Secret is the key."""
    protocol: str | None
    """What the provider speaks: Anthropic or OpenAI."""
    base_url: str | None
    """The provider's address."""
    image: str | None
    """What the sandbox's file system is made of."""
    working_dir: str | None
    """Where commands start."""
    state_dir: str | None
    """The directory that stays while the conversation goes on."""
    source: Mapping[str, Any] | None
    """Files to begin with, such as {"git": {"repo": ..., "ref": ...}}."""
    setup: str | None
    """A command that prepares the sandbox."""
    env: Mapping[str, str] | None
    """Environment variables of every command."""
    secrets: Sequence[str | Secret] | None
    """Secrets whose values lie in /run/secrets."""
    network: Egress | None
    """What the sandbox may reach."""
    max_tokens: int | None
    """The most output tokens of one model call."""
    max_tool_calls: int | None
    """The most tool calls of one turn."""
    max_parallel_agents: int | None
    """The most subagents at a time; 0 for no limit."""
    per_run_max_cost: str | int | float | Decimal | None
    """A run never spends more than this on its models, in USD."""
    state: str | None
    """Running, or Stopped: new runs are refused."""


class Submission(TypedDict, total=False):
    """How one run differs from others of its agent."""

    deadline: str | datetime | timedelta | None
    """When the run fails: a moment, or a duration from now such as `30m`."""
    parallelism: int | None
    """How many subagents may work at a time; 0 lets the server decide."""
    model: str | None
    """Another model, for this run only."""


_SAME = {
    "system": "system",
    "image": "image",
    "working_dir": "workingDir",
    "source": "source",
    "setup": "setup",
    "max_tokens": "maxTokens",
    "max_tool_calls": "maxToolCalls",
    "max_parallel_agents": "maxParallelAgents",
    "state": "state",
}
_OWN_KEY = {
    "api_key_secret": "apiKeySecret",
    "api_key_field": "apiKeyField",
    "protocol": "protocol",
    "base_url": "baseURL",
}


def spec(definition: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    """The Agent's spec: what the program has said and nothing else. `secrets` are their names."""
    given = {key: value for key, value in definition.items() if value is not None}
    found: dict[str, Any] = {wire: given[name] for name, wire in _SAME.items() if name in given}
    if "env" in given:
        found["env"] = [{"name": name, "value": value} for name, value in given["env"].items()]
    if "secrets" in given:
        found["secrets"] = list(secrets)
    if "state_dir" in given:
        found["continuity"] = {"stateDir": given["state_dir"]}
    if "network" in given:
        found["network"] = given["network"].wire()
    if "per_run_max_cost" in given:
        found["perRunMaxCostUSD"] = _usd(given["per_run_max_cost"], "per_run_max_cost")
    if model := _model(given):
        found["model"] = model
    return found


def run_spec(agent: str, prompt: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The AgentRun's spec. Raises UsageError for options that no Submission has."""
    known("submit", options, Submission)
    model = options.get("model")
    given = {
        "deadline": _moment(options.get("deadline")),
        "parallelism": options.get("parallelism"),
        "model": {"access": "OnDemand", "name": model} if model else None,
    }
    return {"agent": agent, "input": prompt} | {key: value for key, value in given.items() if value is not None}


def known(what: str, given: Mapping[str, Any], arguments: type) -> None:
    """Refuse what is none of the arguments, which Python does not check. Raises UsageError."""
    names = arguments.__annotations__
    if unknown := sorted(given.keys() - names.keys()):
        raise UsageError(f"{what} has no argument {unknown[0]!r}", f"The arguments are {', '.join(names)}.")


def _usd(amount: Any, argument: str) -> str:
    """An amount of money as the wire has it. Raises UsageError."""
    try:
        number = Decimal(str(amount))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number <= 0:
        raise UsageError(f"{argument} is {amount!r}, which is no amount of USD", f'Write such as {argument}="0.50".')
    return format(number, "f")


def _moment(deadline: str | datetime | timedelta | None) -> str | None:
    """A deadline as the wire has it: RFC 3339, or a duration that the server adds to its clock. Raises UsageError."""
    if isinstance(deadline, timedelta):
        return f"{deadline.total_seconds():.3f}s"
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise UsageError("deadline has no time zone", "Write such as datetime.now(UTC) + timedelta(minutes=30).")
        return deadline.isoformat()
    return deadline


def _model(given: Mapping[str, Any]) -> dict[str, Any]:
    own = {wire: given[name] for name, wire in _OWN_KEY.items() if name in given}
    named = {"name": given["model"]} if "model" in given else {}
    families = {"families": list(given["families"])} if "families" in given else {}
    usual = "BYOK" if own else "OnDemand" if named else "Nodus" if families else None
    access = given.get("access", usual)
    return {"access": access, **named, **families, **own} if access else {}
