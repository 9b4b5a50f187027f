"""What `wait` waits for: a field's value, a condition in the status, or the end of the object."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from corral.cli import jsonpath
from corral.cli.failures import Failure, usage
from corral.cli.targets import Target
from corral.kinds.agentrun import FINISHED

_JSONPATH = re.compile(r"(\{.*\}|[^={]*[^=])(?:=(.*))?", re.DOTALL)
_FORMS = "Use --for=delete, --for=condition=TYPE[=STATUS] or --for=jsonpath='{.status.phase}'=Succeeded."


@dataclass(frozen=True)
class Condition:
    """A condition as it was written, and whether an object fulfils it (`check` is None for `delete`)."""

    text: str
    check: Callable[[dict[str, Any]], bool] | None

    def holds(self, target: Target, document: dict[str, Any]) -> bool:
        """Whether the object is as wanted. Raises Failure when it never will be: a run that was to reach one phase has
        ended in another."""
        if self.check is None:
            return False
        if self.check(document):
            return True
        status = document.get("status") or {}
        if target.plural == "agentruns" and "status.phase" in self.text and status.get("phase") in FINISHED:
            why = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
            ended = f"{target} ended as {status['phase']}" + (f" ({why})" if why else "")
            reason = status.get("reason") or status["phase"]
            raise Failure(f"{ended} and will not become {self.text}", reason=reason)
        return False


def parse(text: str) -> Condition:
    """The condition that `--for` names. Raises Failure with the forms there are."""
    if text == "delete":
        return Condition(text, None)
    form, _, rest = text.partition("=")
    if form == "condition" and rest:
        kind, _, status = rest.partition("=")
        return Condition(text, lambda document: _has(document, kind, status or "True"))
    match = _JSONPATH.fullmatch(rest) if form == "jsonpath" else None
    if match is None:
        raise usage(f"--for={text} is not a condition", _FORMS)
    path, value = jsonpath.compile(match[1]), match[2]
    return Condition(text, lambda document: path(document) == value if value is not None else bool(path(document)))


def _has(document: dict[str, Any], kind: str, status: str) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or []
    wanted = (kind.lower(), status.lower())
    return any((str(c.get("type", "")).lower(), str(c.get("status", "")).lower()) == wanted for c in conditions)
