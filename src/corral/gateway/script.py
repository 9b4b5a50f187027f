"""A model that follows a script: what it answers is decided by the prompt alone, the same each time.

For tests, demonstrations and first steps without any model service. The first reply of a turn asks for one tool call;
once the result is there, the answer quotes it. Directives in the prompt change that:

    [[fake:tool_calls=3]]      three tool calls, one after the other, before the answer (0: answer at once)
    [[fake:parallel=2]]        each tool step asks for two calls in one reply
    [[fake:command=echo hi]]   the shell command ({n} is the step, {i} the call within it, {prompt} the prompt)
    [[fake:tool=name]]         call this tool; [[fake:args={"a":1}]] merges these arguments
    [[fake:answer=text]]       the final text ({tool} is the last tool result, {n} the number of tool steps)
    [[fake:say=text]]          text that goes with each tool call
    [[fake:bad_tool=1]]        a call to a tool that does not exist, at step 0
    [[fake:stop=max_tokens]]   stop reason of the final answer: end_turn, max_tokens, refusal or context
    [[fake:size=200000]]       pad the answer to this many characters
    [[fake:unicode=1]]         an answer with astral characters, combining marks, RTL, NUL and half a surrogate pair
    [[fake:tokens=1000,50]]    report these input and output tokens; a third and fourth number: cache read, cache write
    [[fake:no_usage=1]]        report no usage at all
    [[fake:delay=0.5]]         seconds before the answer
    [[fake:script=[{"tool":"shell","args":{"command":"ls"}},{"text":"done"}]]]   one entry for each model call

A turn starts at the last user message that holds text and no tool result.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .call import Message, Tool, Usage

Directives = dict[str, Any]
DEFAULTS: Directives = {
    "tool_calls": 1,
    "parallel": 1,
    "command": "echo step-{n}",
    "answer": "Done: {tool}",
    "stop": "end_turn",
    "delay": 0,
}
UNICODE_ANSWER = (
    "na\u00efve e\u0301 \U0001f680\U0001f468\u200d\U0001f469\u200d\U0001f467 \u05e9\u05dc\u05d5\u05dd \u202eRTL\u202c "
    "\x00\x1b[31mred\x1b[0m \u4f60\u597d \ud83d!"
)

_DIRECTIVE = re.compile(r"\[\[fake:([a-z_]+)=((?:(?!\]\](?!\])).)*)\]\]", re.DOTALL)
_PLACE = re.compile(r"\{(n|i|tool|prompt)\}")
_COMMANDS = ("command", "cmd", "commands", "bash_command", "shell_command", "script", "code", "cmdline", "argv")
_SHELL = re.compile(r"bash|shell|exec|terminal|run|command", re.IGNORECASE)


@dataclass(frozen=True)
class Scene:
    """What of a conversation decides the next reply."""

    prompt: str = ""
    """The text that began this turn."""
    step: int = 0
    """Tool steps done in this turn."""
    result: str = ""
    """The last tool result."""
    tools: Sequence[Tool] = ()


@dataclass
class Call:
    """One tool call. `id` is digits and letters; a wire adds its own prefix."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass
class Planned:
    """What the next reply says."""

    text: str
    calls: list[Call] = field(default_factory=list)
    stop: str = "end_turn"


def directives(prompt: str, defaults: Mapping[str, Any] = DEFAULTS) -> Directives:
    """The defaults and what the prompt says over them. Raises ValueError when a JSON value is malformed."""
    found: Directives = dict(defaults)
    for key, value in _DIRECTIVE.findall(prompt):
        found[key] = json.loads(value) if key in ("script", "args") else value
    return found


def scene(messages: Sequence[Message], tools: Sequence[Tool]) -> Scene:
    """The scene of a conversation in the canonical form."""
    prompt, step, result = "", 0, ""
    for message in messages:
        if message["role"] != "user":
            continue
        content = message["content"]
        results = [] if isinstance(content, str) else [b for b in content if b.get("type") == "tool_result"]
        if results:
            step, result = step + 1, text_of(results[-1].get("content"))
        elif (text := text_of(content)).strip():
            prompt, step = text, 0
    return Scene(prompt, step, result, tools)


def plan(told: Directives, scene: Scene, key: str) -> Planned:
    """The reply to the scene. `key` stands for the request: ids are made of it. Raises ValueError for a bad number."""
    if entries := told.get("script"):
        entry = entries[min(scene.step, len(entries) - 1)]
        specs = entry.get("calls") or ([entry] if entry.get("tool") or "command" in entry else [])
        calls = [_call(told, scene, key, i, spec) for i, spec in enumerate(specs)]
        return Planned(_fill(entry.get("text", ""), scene), calls, entry.get("stop", told["stop"]))
    if scene.tools and scene.step < int(told["tool_calls"]):
        calls = [_call(told, scene, key, i, {}) for i in range(int(told["parallel"]))]
        if told.get("bad_tool") and scene.step == 0:
            calls[0].name, calls[0].input = "no_such_tool", {"x": 1}
        return Planned(_fill(told.get("say", ""), scene), calls, told["stop"])
    text = UNICODE_ANSWER if told.get("unicode") else _fill(told["answer"], scene)
    missing = int(told.get("size") or 0) - len(text)
    if missing > 0:
        text += "".join(f"{n:>9}\n" for n in range(missing // 10 + 1))[:missing]
    return Planned(text, [], told["stop"])


def reported(told: Directives) -> Usage | None:
    """The usage that a directive sets, or None. Raises ValueError when it is not two to four numbers."""
    if not told.get("tokens"):
        return None
    numbers = [int(number) for number in str(told["tokens"]).split(",")]
    if not 2 <= len(numbers) <= 4:
        raise ValueError("[[fake:tokens=...]] takes input,output[,cache read[,cache write]]")
    used, out, read, written = [*numbers, 0, 0][:4]
    return Usage(input=used, output=out, cache_read=read, cache_write=written)


def tokens(value: Any) -> int:
    """Deterministic tokens: one for each four characters of JSON, rounded up."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text) // 4)


def spoken(reply: Planned) -> int:
    """Output tokens of a reply."""
    return max(1, tokens(reply.text) + sum(tokens(call.input) + 8 for call in reply.calls))


def request_key(value: Any) -> str:
    """A digest that is the same for the same request."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def text_of(content: Any) -> str:
    """The text of a message's or a tool result's content."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content or []:
        if isinstance(part, str):
            texts.append(part)
        elif part.get("type") == "tool_result":
            texts.append(text_of(part.get("content")))
        elif part.get("type") == "text":
            texts.append(part.get("text") or "")
    return "\n".join(texts)


def pieces(text: str, count: int = 3) -> list[str]:
    """The text in about `count` pieces, as a stream brings it."""
    size = max(1, -(-len(text) // count))
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def _fill(text: str, scene: Scene, i: int = 0) -> str:
    values = {"n": str(scene.step), "i": str(i), "tool": scene.result.strip()}
    values["prompt"] = _DIRECTIVE.sub("", scene.prompt).strip()
    return _PLACE.sub(lambda match: values[match[1]], str(text))


def _call(told: Directives, scene: Scene, key: str, i: int, spec: Mapping[str, Any]) -> Call:
    command = _fill(spec.get("command", told["command"]), scene, i)
    tool = _pick(scene.tools, spec.get("tool") or told.get("tool"))
    arguments = _example({**tool.schema, "type": "object"}, tool.schema, "", command) if tool.schema else {}
    for name, schema in (tool.schema.get("properties") or {}).items():
        if name in _COMMANDS and name not in arguments:
            arguments[name] = _example(schema, tool.schema, name, command)
    arguments |= told.get("args") or {}
    arguments |= spec.get("args") or {}
    return Call(hashlib.sha256(f"{key}:{scene.step}:{i}".encode()).hexdigest()[:24], tool.name, arguments)


def _pick(tools: Sequence[Tool], wanted: str | None) -> Tool:
    """The wanted tool, or the one most like a shell: by its parameters, then by its name."""
    if wanted:
        return next((tool for tool in tools if tool.name == wanted), Tool(wanted, "", {}))
    by_parameter = [tool for tool in tools if set(_COMMANDS) & set(tool.schema.get("properties") or {})]
    by_name = [tool for tool in tools if _SHELL.search(tool.name)]
    return [*by_parameter, *by_name, *tools, Tool("shell", "", {})][0]


def _example(schema: Mapping[str, Any], root: Mapping[str, Any], name: str, command: str) -> Any:
    """A value that fits the JSON schema; what is named like a command gets the command."""
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _example(schema[key][0], root, name, command)
    kind = schema.get("type") or ("object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if name in _COMMANDS:
        return [command] if kind == "array" else command
    if "default" in schema:
        return schema["default"]
    if kind == "object":
        properties, required = schema.get("properties") or {}, schema.get("required") or []
        return {k: _example(v, root, k, command) for k, v in properties.items() if k in required}
    if kind == "array":
        return [_example(schema.get("items") or {}, root, "", command)] * (schema.get("minItems") or 0)
    return _scalar(schema, kind, name)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(16):
        if "$ref" not in schema:
            return schema
        node: Any = root
        for part in str(schema["$ref"]).lstrip("#/").split("/"):
            node = node.get(part, {})
        schema = node
    return {}


def _scalar(schema: Mapping[str, Any], kind: str, name: str) -> Any:
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    if kind == "boolean":
        return False
    if kind == "null":
        return None
    return "run" if name in ("summary", "description") else "x" * max(1, schema.get("minLength") or 1)
