"""read_file: see a text file of the sandbox, or a part of it."""

from pydantic import Field

from corral.agents.tooling import TEXT_LIMIT, ToolCall, ToolInput, ToolOutcome, ToolSpec
from corral.base import text
from corral.sandboxes import SandboxError, SandboxGone


class ReadFileInput(ToolInput):
    path: str = Field(min_length=1, max_length=4096)
    """An absolute path, or one from the working directory."""
    first_line: int = Field(default=1, ge=1)
    """The line to begin with."""
    max_lines: int | None = Field(default=None, ge=1)
    """How many lines; all that fit when it is missing."""


async def act(call: ToolCall, arguments: ReadFileInput) -> ToolOutcome:
    """Read and shorten. Raises SandboxGone."""
    shown = {"path": arguments.path}
    try:
        data = await call.sandbox.read_file(arguments.path)
    except SandboxGone:
        raise
    except SandboxError as error:
        return ToolOutcome(f"{arguments.path} could not be read: {error}", error=True, detail=shown)
    lines = call.redact(text.decode(data)).splitlines(keepends=True)
    last = len(lines) if arguments.max_lines is None else arguments.first_line - 1 + arguments.max_lines
    body = "".join(lines[arguments.first_line - 1 : last])
    note = "" if len(body) <= TEXT_LIMIT else f"\n[{arguments.path} has {len(lines)} lines; ask for a part of it]"
    return ToolOutcome(text.clip(body, TEXT_LIMIT) + note, detail=shown | {"size": len(data)})


tool = ToolSpec(
    name="read_file",
    description="Read a text file. Long files are shortened in the middle: ask for a range of lines.",
    input=ReadFileInput,
    act=act,
    shown=lambda arguments: {"path": str(arguments.get("path", ""))[:4096]},
)
