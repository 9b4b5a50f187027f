"""What people see of a conversation so far: turns, answer, cost.

Rebuilt by replay, and written with each recorded result.
"""

from dataclasses import dataclass, field
from typing import Any

from corral.base import ids, money
from corral.durable.execution import Execution
from corral.gateway.call import Usage

PREVIEW_BYTES = 4096


@dataclass
class TurnProgress:
    """One prompt and what answering it took so far; money in nano-USD."""

    prompt: str
    model: str
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0

    def wire(self) -> dict[str, Any]:
        """An entry of `status.turns`."""
        return {
            "prompt": self.prompt,
            "model": self.model,
            "routedBy": "fixed",
            "modelCalls": self.model_calls,
            "toolCalls": self.tool_calls,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "costUSD": money.usd(self.cost),
        }


@dataclass
class Progress:
    """The conversation as `status` tells it."""

    turns: list[TurnProgress] = field(default_factory=list)
    answer: str | None = None
    sandbox: str = ""

    def count(self, usage: Usage | None, cost: int) -> None:
        """Add a model call to the current turn."""
        turn = self.turns[-1]
        turn.model_calls += 1
        turn.cost += cost
        if usage is not None:
            turn.input_tokens += usage.prompt
            turn.output_tokens += usage.output

    def wire(self, execution: Execution) -> dict[str, Any]:
        """The part of `status` that the conversation knows."""
        status: dict[str, Any] = {
            "turns": [turn.wire() for turn in self.turns],
            "steps": {"total": execution.steps},
            "sandbox": self.sandbox,
        }
        if self.answer is not None:
            data = self.answer.encode("utf-8", "replace")
            preview = data[:PREVIEW_BYTES].decode("utf-8", "ignore")
            status["answer"] = {"preview": preview, "size": len(data), "sha256": ids.digest(data)}
        return status
