"""shell: run a command in the sandbox and see its exit code and output."""

from typing import Any

from pydantic import Field

from corral.agents.tooling import SHOWN_LIMIT, TEXT_LIMIT, ToolCall, ToolInput, ToolOutcome, ToolSpec
from corral.base import text
from corral.sandboxes import CommandResult, SandboxError, SandboxGone, Stream

DEFAULT_TIMEOUT = 120
# bash where there is one: models write bash.
_WRAPPER = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; fi; exec sh -c "$1"'


class ShellInput(ToolInput):
    command: str = Field(min_length=1, max_length=100_000)
    """The shell command line."""
    timeout_seconds: int = Field(default=DEFAULT_TIMEOUT, ge=1, le=3600)
    """When the command and everything it started is ended."""


async def act(call: ToolCall, arguments: ShellInput) -> ToolOutcome:
    """Start the command, at most once for the call's id, and wait for its end. Raises SandboxGone."""
    if "\x00" in arguments.command:
        return ToolOutcome("The command was not run: it contains a NUL character.", error=True)
    argv = ["/bin/sh", "-c", _WRAPPER, "sh", arguments.command]
    try:
        await call.sandbox.start(call.command_id, argv, timeout=arguments.timeout_seconds)
    except SandboxGone:
        raise
    except SandboxError as error:
        return ToolOutcome(f"The command could not be started: {error}", error=True)
    result = await call.sandbox.follow(call.command_id, keep=TEXT_LIMIT)
    output = call.redact(await _output(call, result))
    head = f"exit code {result.exit_code}"
    if result.timed_out:
        head += f" (ended after {arguments.timeout_seconds} s, the time limit of the call)"
    detail = {
        "exitCode": result.exit_code,
        "timedOut": result.timed_out,
        "output": text.clip(output, SHOWN_LIMIT),
        "size": sum(stream.size + stream.dropped for stream in (result.stdout, result.stderr)),
    }
    return ToolOutcome(f"{head}\n{output}".rstrip("\n"), detail=detail)


async def _output(call: ToolCall, result: CommandResult) -> str:
    out = await _text(call, "stdout", result.stdout)
    err = await _text(call, "stderr", result.stderr)
    if out and err:
        return f"{out.rstrip()}\n[stderr]\n{err}"
    return out or err


async def _text(call: ToolCall, name: Any, stream: Stream) -> str:
    """Head and tail of a stream; what does not fit is left in a file of the sandbox, and the model is told where."""
    kept = len(stream.head) + len(stream.tail)
    whole = text.decode(stream.head + stream.tail)
    if kept == stream.size and not stream.dropped and len(whole) <= TEXT_LIMIT:
        return whole
    half = TEXT_LIMIT // 2
    both = stream.head + stream.tail if kept == stream.size else b""
    head = text.decode((both or stream.head)[:half])
    tail = text.decode((both or stream.tail or stream.head)[-half:])
    note = f"{name} has {stream.size + stream.dropped} bytes; its first and last {half} are shown"
    try:
        path = f"/tmp/corral/{call.command_id}.{name}"
        await call.sandbox.save_output(call.command_id, name, path)
        note += f"; {'all of it' if not stream.dropped else f'its first {stream.size} bytes'} is in {path}"
    except SandboxError as error:
        note += f"; the rest could not be saved: {error}"
    return f"{head}\n[{note}]\n{tail}"


tool = ToolSpec(
    name="shell",
    description=(
        "Run a command with bash in the sandbox; see its exit code and output. Every call is a new shell that starts "
        "in the working directory; files stay. Long output is shortened in the middle and kept in a file that is named."
    ),
    input=ShellInput,
    act=act,
    effect="external",
    interrupted="again",
    shown=lambda arguments: {"command": text.clip(str(arguments.get("command", "")), SHOWN_LIMIT)},
)
