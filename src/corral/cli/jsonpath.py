"""JSONPath as kubectl's users write it (`{.status.phase}`, or `status.phase`), evaluated by RFC 9535."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from jsonpath import JSONPathError
from jsonpath import compile as rfc9535

from corral.cli.failures import usage

# A piece between braces; quotes and brackets inside may hold braces of their own.
_BRACED = re.compile(r"\{((?:\"[^\"]*\"|'[^']*'|[^{}\"'])*)\}")
_NAME = re.compile(r"(?:[^.\[\]\\\s{}]|\\.)+", re.DOTALL)
_BRACKET = re.compile(r"\[(?:\"[^\"]*\"|'[^']*'|[^\[\]\"']|\[[^\]]*\])*\]")
Piece = Callable[[Any, Any], str]
"""The text that a part of a template gives, for the whole document and the value that a range is at."""
Values = Callable[[Any, Any], list[Any]]
_EXAMPLE = "Write a path such as {.status.phase} or {.status.turns[0].model}."

_RANGE = "A range is {range .items[*]}...{end}."


def compile(template: str) -> Callable[[Any], str]:
    """What a template gives for a document: the text around `{...}` as it is, the values of each path separated by
    spaces, and what stands between `{range PATH}` and `{end}` once for each value. A template without braces is one
    path. Raises Failure for what is not a path."""
    pieces = _pieces(_tokens(template), "")
    return lambda document: "".join(piece(document, document) for piece in pieces)


def _tokens(template: str) -> Iterator[tuple[str, bool]]:
    """The parts of a template, and whether each was between braces. Raises Failure for a brace without its partner."""
    end = 0
    for match in _BRACED.finditer(template) if "{" in template else ():
        yield template[end : match.start()], False
        yield _trimmed(match[1]), True
        end = match.end()
    if "{" not in template:
        yield _trimmed(template), True
        return
    if re.search(r"[{}]", template[end:]):
        raise usage(f"{template!r} has a brace without its partner", _EXAMPLE)
    yield template[end:], False


def _pieces(tokens: Iterator[tuple[str, bool]], inside: str) -> list[Piece]:
    """What the tokens give, up to the end, or to the `{end}` of the range that they are `inside` of."""
    pieces: list[Piece] = []
    for text, braced in tokens:
        if not braced:
            pieces.append(_literal(text))
        elif text == "end":
            if inside:
                return pieces
            raise usage(f"{{{text}}} ends no range", f"{_EXAMPLE} {_RANGE}")
        elif text.startswith("range "):
            pieces.append(_range(_values(text.removeprefix("range ").strip()), _pieces(tokens, text)))
        else:
            pieces.append(_piece(text))
    if inside:
        raise usage(f"{{{inside}}} has no {{end}}", f"{_EXAMPLE} {_RANGE}")
    return pieces


def _trimmed(text: str) -> str:
    """Without the space around it; an escaped space at the end belongs to a name."""
    return re.sub(r"(?<!\\)\s+$", "", text.lstrip())


def _literal(text: str) -> Piece:
    return lambda root, here: text


def _range(values: Values, inner: list[Piece]) -> Piece:
    return lambda root, here: "".join(piece(root, value) for value in values(root, here) for piece in inner)


def _piece(text: str) -> Piece:
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return _literal(text[1:-1].replace("\\n", "\n").replace("\\t", "\t"))
    values = _values(text)
    return lambda root, here: " ".join(map(_shown, values(root, here)))


def _values(text: str) -> Values:
    """The values of a path; `$` begins at the document, anything else at the value that a range is at."""
    try:
        path = rfc9535(_translate(text))
    except (JSONPathError, ValueError) as error:
        raise usage(f"{text!r} is not a JSONPath: {str(error).splitlines()[0]}", _EXAMPLE) from None
    return lambda root, here: path.findall(root if text.startswith("$") else here)


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
            name = re.sub(r"\\(.)", r"\1", match[0], flags=re.DOTALL)
            path += "[*]" if match[0] == "*" else f"[{json.dumps(name)}]"
        elif rest:
            raise ValueError(f"nothing is known to begin with {rest[:10]!r}")
        rest = rest[match.end() :] if match else rest
    return path


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
