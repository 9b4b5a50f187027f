"""write_file: replace or make a file of the sandbox."""

from pydantic import Field

from corral.agents.tooling import ToolCall, ToolInput, ToolOutcome, ToolSpec
from corral.sandboxes import SandboxError, SandboxGone


class WriteFileInput(ToolInput):
    path: str = Field(min_length=1, max_length=4096)
    """An absolute path, or one from the working directory; its directories are made."""
    content: str
    """All of the new content."""


async def act(call: ToolCall, arguments: WriteFileInput) -> ToolOutcome:
    """Write the whole file; writing it again changes nothing. Raises SandboxGone."""
    data = arguments.content.encode("utf-8", "replace")
    shown = {"path": arguments.path, "size": len(data)}
    try:
        await call.sandbox.write_file(arguments.path, data)
    except SandboxGone:
        raise
    except SandboxError as error:
        return ToolOutcome(f"{arguments.path} could not be written: {error}", error=True, detail=shown)
    return ToolOutcome(f"{len(data)} bytes are in {arguments.path}.", detail=shown)


tool = ToolSpec(
    name="write_file",
    description="Write a text file, replacing what is there.",
    input=WriteFileInput,
    act=act,
    shown=lambda arguments: {"path": str(arguments.get("path", ""))[:4096]},
)
