"""One conversation: prompts, model calls, tool calls in the sandbox, and the answer."""
