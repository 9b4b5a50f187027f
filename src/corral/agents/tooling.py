"""What a tool is: an input model, an act in the sandbox, and a text for the model that always fits.

A tool module has `tool: ToolSpec`. Its outcome text is capped here, in one place, whatever the tool did.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from corral.base import text
from corral.durable.outcomes import Effect, Interrupted
from corral.gateway.call import Tool
from corral.sandboxes import Sandbox

TEXT_LIMIT = 16 * 1024
"""Characters of one tool result that the model sees."""
SHOWN_LIMIT = 4 * 1024
"""Characters that `steps` shows."""


class ToolInput(BaseModel):
    """The arguments of a tool; the model gets its JSON schema."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


Arguments = TypeVar("Arguments", bound=ToolInput)


@dataclass(frozen=True)
class ToolOutcome:
    """What the model is told, and what people are shown."""

    text: str
    error: bool = False
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolCall:
    """Where a call runs, and the id that makes its command run at most once."""

    sandbox: Sandbox
    command_id: str
    secrets: Mapping[str, bytes] = field(default_factory=dict)

    def redact(self, value: str) -> str:
        """The text without the values of the run's secrets."""
        for name, secret in self.secrets.items():
            if len(secret) >= 4:
                value = value.replace(text.decode(secret), f"[secret {name}]")
        return value


@dataclass(frozen=True)
class ToolSpec(Generic[Arguments]):
    """A tool: how the model sees it, how it acts, and what an interrupted call means."""

    name: str
    description: str
    input: type[Arguments]
    act: Callable[[ToolCall, Arguments], Awaitable[ToolOutcome]]
    effect: Effect = "idempotent"
    interrupted: Interrupted = "again"
    shown: Callable[[dict[str, Any]], dict[str, Any]] = lambda arguments: {}
    """What `steps` shows of the arguments while the call runs."""

    def declaration(self) -> Tool:
        """The tool as the model is told of it."""
        schema = self.input.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        for prop in schema.get("properties", {}).values():
            prop.pop("title", None)
        return Tool(self.name, self.description, schema)

    async def run(self, call: ToolCall, arguments: Any) -> ToolOutcome:
        """Check the arguments and act; wrong arguments are an outcome that tells the model which and why."""
        try:
            checked = self.input.model_validate(arguments)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in error.errors())
            return ToolOutcome(f"The call was not run, its arguments are wrong: {wrong}", error=True)
        return await self.act(call, checked)
