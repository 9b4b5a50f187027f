"""JSONPath as kubectl's users write it (`{.status.phase}`, or `status.phase`), evaluated by RFC 9535."""

import json
import re
from collections.abc import Callable
from typing import Any

from jsonpath import JSONPathError
from jsonpath import compile as rfc9535

from corral.cli.failures import usage

# A piece between braces; quotes and brackets inside may hold braces of their own.
_BRACED = re.compile(r"\{((?:\"[^\"]*\"|'[^']*'|[^{}\"'])*)\}")
_NAME = re.compile(r"(?:[^.\[\]\\\s{}]|\\.)+")
_BRACKET = re.compile(r"\[(?:\"[^\"]*\"|'[^']*'|[^\[\]\"']|\[[^\]]*\])*\]")
_EXAMPLE = "Write a path such as {.status.phase} or {.status.turns[0].model}."


def compile(template: str) -> Callable[[Any], str]:
    """What a template gives for a document: the text around `{...}` as it is, the values of each path separated by
    spaces. A template without braces is one path. Raises Failure for what is not a path."""
    pieces: list[Callable[[Any], str]] = []
    end = 0
    for match in _BRACED.finditer(template) if "{" in template else ():
        pieces += [_literal(template[end : match.start()]), _piece(match[1].strip())]
        end = match.end()
    if "{" not in template:
        pieces, end = [_piece(template.strip())], len(template)
    if re.search(r"[{}]", template[end:]):
        raise usage(f"{template!r} has a brace without its partner", _EXAMPLE)
    pieces.append(_literal(template[end:]))
    return lambda document: "".join(piece(document) for piece in pieces)


def _literal(text: str) -> Callable[[Any], str]:
    return lambda document: text


def _piece(text: str) -> Callable[[Any], str]:
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return _literal(text[1:-1].replace("\\n", "\n").replace("\\t", "\t"))
    try:
        path = rfc9535(_translate(text))
    except (JSONPathError, ValueError) as error:
        raise usage(f"{text!r} is not a JSONPath: {str(error).splitlines()[0]}", _EXAMPLE) from None
    return lambda document: " ".join(_shown(value) for value in path.findall(document))


def _translate(text: str) -> str:
    """The path in the notation of RFC 9535, with every name quoted: names may hold `-` and, escaped, dots."""
    rest = text.removeprefix("$").removeprefix("@")
    path = "$"
    while rest:
        if rest.startswith(".."):
            path, rest = path + "..", rest[2:]
        elif rest.startswith("."):
            rest = rest[1:]
        if match := _BRACKET.match(rest):
            path += match[0]
        elif match := _NAME.match(rest):
            name = match[0].replace("\\", "")
            path += "[*]" if name == "*" else f"[{json.dumps(name)}]"
        elif rest:
            raise ValueError(f"nothing is known to begin with {rest[:10]!r}")
        rest = rest[match.end() :] if match else rest
    return path


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
