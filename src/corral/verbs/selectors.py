"""Label and field selectors: `team=search,!old` and `status.phase!=Failed`, as Kubernetes writes them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from corral.kinds import Problem, Reason

Test = Callable[[Mapping[str, Any]], bool]

_TERM = re.compile(r"^\s*(?P<not>!?)\s*(?P<path>[A-Za-z0-9_./-]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[^,=!]*?))?\s*$")


def labels(text: str) -> Test:
    """Whether an object's labels fit: `k=v`, `k!=v`, `k`, `!k`, joined by commas. Raises Problem BadRequest."""
    terms = [_term(part, text, "label") for part in text.split(",")] if text.strip() else []

    def fits(document: Mapping[str, Any]) -> bool:
        have = document["metadata"].get("labels") or {}
        return all(_fits(have.get(path), op, value) for path, op, value in terms)

    return fits


def fields(text: str) -> Test:
    """Whether fields of the object fit: `metadata.name=x,status.phase!=Failed`. Raises Problem BadRequest."""
    terms = [_term(part, text, "field") for part in text.split(",")] if text.strip() else []
    for path, op, _ in terms:
        if op in ("exists", "absent"):
            raise _malformed("field", text, f"{path} has no = or != and a value")

    def fits(document: Mapping[str, Any]) -> bool:
        return all(_fits(_lookup(document, path), op, value) for path, op, value in terms)

    return fits


def name_in(text: str) -> str | None:
    """The name that a field selector asks for, if it asks for one."""
    for part in text.split(","):
        path, _, value = part.partition("=")
        if path.strip() == "metadata.name" and not value.startswith("="):
            return value.strip()
    return None


def _term(part: str, text: str, what: str) -> tuple[str, str, str]:
    match = _TERM.match(part)
    if match is None or (match["not"] and match["op"]):
        raise _malformed(what, text, f"{part.strip()!r} is not a term")
    if match["op"] is None:
        return match["path"], "absent" if match["not"] else "exists", ""
    return match["path"], "!=" if match["op"] == "!=" else "=", match["value"]


def _malformed(what: str, text: str, why: str) -> Problem:
    fix = "Write terms such as key=value or key!=value, joined by commas."
    return Problem(Reason.BadRequest, f"the {what} selector {text!r} is malformed: {why}", fix=fix)


def _fits(have: str | None, op: str, value: str) -> bool:
    if op == "exists":
        return have is not None
    if op == "absent":
        return have is None
    # An absent field selects like an empty one, and an absent label is not equal to anything.
    return (have or "") == value if op == "=" else (have or "") != value


def _lookup(document: Mapping[str, Any], path: str) -> str:
    node: Any = document
    for part in path.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    if node is None:
        return ""
    return str(node).lower() if isinstance(node, bool) else str(node)
