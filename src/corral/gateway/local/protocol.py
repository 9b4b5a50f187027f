"""Between the platform's canonical messages and the fenced chat that a small model can hold.

Everything is derived from the messages of one request; nothing is remembered between calls. The model is offered one
tool, the shell; the rules that keep a small model on its way (when it must run a command, when it must answer) are
enforced by the grammar of the next reply.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corral.base import text as plain
from corral.base.ids import new_suffix
from corral.gateway.call import Block, Message, Request, Tool
from corral.gateway.local import examples

MAX_STEPS = 6
"""Commands for one prompt, after which the model must answer."""
MAX_TOKENS = 256
"""Tokens of one reply: more from a model of this size is rambling."""
CONVERSATION_CHARS = 6000
"""What of the conversation is shown at first: about 2,500 tokens, beside the prefix and the reply in 4,096."""

UNPROVEN = "(No command succeeded, so this answer may be a guess.)"
"""Follows such an answer for the reader; the model never sees it, lest it repeat it."""

_RESULT_CHARS = 700
_SYSTEM_CHARS = 500
_PROMPT_CHARS = 3000
_EXIT = re.compile(r"exit code (-?\d+)[^\n]*(?:\n|$)")
_WRITES = re.compile(r">|\b(mv|cp|rm|mkdir|touch|ln|chmod|sed -i)\b")
_SMALL_TALK = re.compile(
    r"(hi|hello|hey|thanks|thank you|good (morning|afternoon|evening|night)|bye)"
    r"( there| again| a lot| very much)*[\s.,!?]*",
    re.IGNORECASE,
)
_SPECIAL = re.compile(r"<\|(?=\w+\|>)")


@dataclass(frozen=True)
class Turn:
    """One message of the chat that the model reads."""

    role: str
    text: str


@dataclass(frozen=True)
class Step:
    """One reply to generate: what the model reads, and the grammar of what it may write ("" allows anything)."""

    turns: tuple[Turn, ...]
    grammar: str
    tool: str = ""
    argument: str = ""
    ran: frozenset[str] = frozenset()
    unproven: bool = False
    """Commands ran and all failed: an answer now is likely invented."""

    def answering(self) -> "Step":
        """The same step when the model may only answer."""
        return replace(self, grammar=examples.ANSWER_ONLY)


@dataclass
class _Ran:
    call: str
    command: str
    result: str = ""
    failed: bool = False


@dataclass
class _Exchange:
    prompt: str
    steps: list[_Ran] = field(default_factory=list)
    answer: str = ""


def plan(request: Request, limit: int = CONVERSATION_CHARS) -> Step:
    """The step that answers the request, with at most about `limit` characters of its conversation.

    Without a shell tool among the request's tools it is a plain chat.
    """
    exchanges = _exchanges(request.messages)
    tool = _shell(request.tools)
    if tool is None:
        return Step(tuple(_chat(request.system, exchanges, limit)), "")
    name, argument = tool
    latest = exchanges[-1]
    observed, grammar = _judge(latest)
    turns = [*PREFIX, *_instructions(request.system)]
    for exchange in _recent(exchanges, limit):
        turns += _shown(exchange, observed if exchange is latest else _judge(exchange)[0], limit)
    unproven = bool(latest.steps) and all(map(_failed, latest.steps))
    return Step(tuple(turns), grammar, name, argument, frozenset(step.command for step in latest.steps), unproven)


def chatml(turns: Sequence[Turn]) -> str:
    """The prompt of the turns in ChatML, Qwen's format. Text that looks like a control token is broken up."""
    return (
        "".join(f"<|im_start|>{turn.role}\n{_inert(turn.text)}<|im_end|>\n" for turn in turns)
        + "<|im_start|>assistant\n"
    )


def chat(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """The turns as chat messages for a model's own template; many templates take one system message, at the start."""
    system = "\n\n".join(turn.text for turn in turns if turn.role == "system")
    rest = [{"role": turn.role, "content": _inert(turn.text)} for turn in turns if turn.role != "system"]
    return [{"role": "system", "content": _inert(system)}, *rest]


def command_of(text: str) -> str | None:
    """The command of a complete fenced reply; None for anything else."""
    found = re.fullmatch(r"```bash\n(.*?)```\s*", text, re.DOTALL)
    return found[1].strip() if found else None


def answer_of(text: str) -> str:
    """The text of an answer, without its marker."""
    return text.removeprefix("Answer:").strip()


def content(step: Step, text: str, finish: str) -> tuple[list[Block], str]:
    """(content blocks, stop reason) of the model's text; `finish` is the engine's: stop or length."""
    stop = "max_tokens" if finish == "length" else "end_turn"
    if not step.tool:
        return [{"type": "text", "text": text.strip()}], stop
    if command := command_of(text):
        call = f"call_{new_suffix(12)}"
        return [{"type": "tool_use", "id": call, "name": step.tool, "input": {step.argument: command}}], "tool_use"
    answer = f"{answer_of(text)}\n\n{UNPROVEN}" if step.unproven else answer_of(text)
    return [{"type": "text", "text": answer}], stop


class AnswerStream:
    """Picks the answer's text out of a reply as it grows; the text of a command is not passed on."""

    def __init__(self, step: Step) -> None:
        self._marker = "Answer: " if step.tool else ""
        self._seen = ""

    def feed(self, piece: str) -> str:
        """What of this piece belongs to the answer."""
        before = len(self._seen)
        self._seen += piece
        if not self._seen.startswith(self._marker):
            return ""
        return self._seen[max(before, len(self._marker)) :]


def _shell(tools: Sequence[Tool]) -> tuple[str, str] | None:
    """(name, argument) of the tool that runs a shell command, found by its name or else by a `command` string."""
    for tool in sorted(tools, key=lambda tool: tool.name != "shell"):
        if tool.schema.get("properties", {}).get("command", {}).get("type") == "string":
            return tool.name, "command"
    return None


def _exchanges(messages: Sequence[Message]) -> list[_Exchange]:
    """The conversation as prompts, each with the commands run for it and the answer given."""
    out: list[_Exchange] = []
    for message in messages:
        blocks = list(_blocks(message))
        said = "\n".join(text for text in map(_text, blocks) if text)
        if message["role"] == "user":
            for block in blocks:
                if block.get("type") == "tool_result" and out:
                    _settle(out[-1], block)
            if said and out and not out[-1].steps and not out[-1].answer:
                out[-1].prompt += f"\n{said}"
            elif said:
                out.append(_Exchange(said))
            continue
        out = out or [_Exchange("Go on.")]
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        out[-1].steps += [_Ran(str(use.get("id")), _command(use)) for use in uses]
        out[-1].answer = "" if uses else said.removesuffix(UNPROVEN).rstrip()
    return out or [_Exchange("Go on.")]


def _blocks(message: Message) -> Iterator[Block]:
    body = message["content"]
    yield from [{"type": "text", "text": body}] if isinstance(body, str) else body


def _text(block: Block) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", "")).strip()
        case "image" | "document":
            return f"(the {block['type']} that was here cannot be shown to a text model)"
    return ""


def _command(use: Block) -> str:
    given: Any = use.get("input") or {}
    if isinstance(given, dict) and isinstance(given.get("command"), str):
        return str(given["command"]).strip()
    return f"# {use.get('name')} {given}"


def _settle(exchange: _Exchange, block: Block) -> None:
    body = block.get("content", "")
    text = body if isinstance(body, str) else "\n".join(filter(None, map(_text, body or [])))
    for step in exchange.steps:
        if step.call == str(block.get("tool_use_id")):
            step.result, step.failed = text, bool(block.get("is_error"))


def _judge(exchange: _Exchange) -> tuple[list[str], str]:
    """What the model sees of each command's result, and the grammar of its next reply.

    The first reply is a command, so that nothing is answered from memory; only small talk has none. A failure, or a
    read that showed nothing, must be followed by a command, once. After a repeated command or six of them the model
    must answer.
    """
    observed: list[str] = []
    talk = _SMALL_TALK.fullmatch(exchange.prompt)
    grammar, setbacks = examples.ANSWER_ONLY if talk else examples.COMMAND_ONLY, 0
    for step in exchange.steps:
        code, output = _outcome(step)
        failed = _failed(step)
        silent_read = code == 0 and not output and not _WRITES.search(step.command)
        setbacks += failed or silent_read
        again = (failed or silent_read) and setbacks == 1
        shown = plain.clip(output, _RESULT_CHARS) or (examples.SHOW if again and silent_read else examples.NO_OUTPUT)
        observed.append(f"exit code {code}\n{shown}" + (f"\n{examples.FAILED}" if again and failed else ""))
        grammar = examples.COMMAND_ONLY if again else examples.EITHER
    commands = [step.command for step in exchange.steps]
    if len(commands) >= MAX_STEPS or len(set(commands)) < len(commands):
        grammar = examples.ANSWER_ONLY
    return observed, grammar


def _outcome(step: _Ran) -> tuple[int, str]:
    found = _EXIT.match(step.result)
    if not found:
        return int(step.failed), step.result.strip()
    return int(found[1]), step.result[found.end() :].strip()


def _failed(step: _Ran) -> bool:
    """Whether the command failed; not a grep that found something, which exits with 2 after an unreadable file."""
    code, output = _outcome(step)
    found = any(not line.startswith("grep: ") for line in output.splitlines())
    return code != 0 and not ("grep" in step.command and code in (1, 2) and found)


def _recent(exchanges: Sequence[_Exchange], limit: int) -> list[_Exchange]:
    """The latest exchange and those just before it that fit."""
    kept, size = [exchanges[-1]], _length(exchanges[-1])
    for exchange in reversed(exchanges[:-1]):
        size += _length(exchange)
        if size > limit:
            break
        kept.insert(0, exchange)
    return kept


def _length(exchange: _Exchange) -> int:
    steps = sum(len(step.command) + min(len(step.result), _RESULT_CHARS) + 60 for step in exchange.steps)
    return min(len(exchange.prompt), _PROMPT_CHARS) + len(exchange.answer) + steps


def _shown(exchange: _Exchange, observed: Sequence[str], limit: int) -> list[Turn]:
    """The turns of an exchange; when they are too long, its earliest commands are left out."""
    prompt = plain.clip(exchange.prompt, min(_PROMPT_CHARS, limit // 2))
    tail: list[Turn] = [Turn("assistant", f"Answer: {exchange.answer}")] if exchange.answer else []
    size = len(prompt) + len(exchange.answer)
    for step, seen in zip(reversed(exchange.steps), reversed(observed), strict=True):
        size += len(step.command) + len(seen)
        if size > limit and tail:
            break
        tail = [Turn("assistant", f"```bash\n{step.command}\n```"), Turn("user", seen), *tail]
    return [Turn("user", prompt), *tail]


def _instructions(system: str) -> list[Turn]:
    # After the examples, so that they stay evaluated for every agent.
    return [Turn("system", plain.clip(system.strip(), _SYSTEM_CHARS, keep_tail=0))] if system.strip() else []


def _chat(system: str, exchanges: Sequence[_Exchange], limit: int) -> Iterator[Turn]:
    yield Turn("system", plain.clip(system.strip(), limit // 2) or "You are a helpful assistant.")
    for exchange in _recent(exchanges, limit // 2):
        yield Turn("user", plain.clip(exchange.prompt, limit // 2))
        if exchange.answer:
            yield Turn("assistant", exchange.answer)


def _inert(text: str) -> str:
    return _SPECIAL.sub("< |", text)


def _prefix() -> Iterator[Turn]:
    yield Turn("system", examples.SYSTEM)
    for example in examples.EXAMPLES:
        steps = [_Ran("", command, f"exit code {code}\n{output}") for command, code, output in example.steps]
        exchange = _Exchange(example.task, steps, example.answer)
        yield from _shown(exchange, _judge(exchange)[0], CONVERSATION_CHARS)


PREFIX = tuple(_prefix())
"""The turns before every conversation that has a shell; the same each time, so the engine evaluates them once."""
