"""The system prompt: where the agent is and what it can do, then what its owner says."""

_PLACE = (
    "You work in a Linux sandbox of your own, through the tools. The working directory is {directory}; files in it "
    "stay for the whole conversation. There is no network. Use the tools to check what you say, and never guess what a "
    "command would print. When you have the answer, give it as plain text without a tool call."
)


def system_prompt(owner: str, directory: str) -> str:
    """The text that begins every call; it never changes within a run, so that providers can cache it."""
    place = _PLACE.format(directory=directory)
    return f"{place}\n\n{owner.strip()}" if owner.strip() else place
