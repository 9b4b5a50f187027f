"""What the double does beside answering: rules for prompts, and the faults of a service.

The script of the answers is `corral.gateway.script`. A prompt's directives override the first rule that matches it,
which overrides the defaults. Faults, with those of the answer:

    [[fake:error=529x2]]       the first two attempts at each model call get this status; no `x`: every attempt
    [[fake:error_at=1]]        only the model call at this step (0 is the first) gets the error
    [[fake:retry_after=2]]     the Retry-After header on errors
    [[fake:plain=1]]           the error body is a proxy's HTML and not the service's JSON
    [[fake:drip=0.05]]         seconds between stream events
    [[fake:hang=1]]            never answer, until the client goes away
    [[fake:drop=1]]            close the connection before the answer (first attempt only; drop=N: N attempts)
    [[fake:cut=1]]             close the connection halfway through the answer (first attempt only; cut=N: N attempts)
    [[fake:cut_at=1]]          only at this step
    [[fake:stream_error=1]]    an error event halfway through a stream that began with 200 (N attempts)
    [[fake:bad_frame=1]]       an event that is no JSON halfway through the stream (N attempts)
    [[fake:bad_json=1]]        malformed tool arguments on the first attempt
    [[fake:context=20000]]     a prompt of more tokens is refused as too long
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.gateway import script

DEFAULTS: script.Directives = {**script.DEFAULTS, "drip": 0}


class Rules:
    """The defaults, and scripts for the prompts that match a pattern."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = {**DEFAULTS, **defaults}
        self._rules: list[tuple[re.Pattern[str], dict[str, Any]]] = []

    def replace(self, rules: Sequence[Mapping[str, Any]]) -> int:
        """Take `[{"match": pattern, "script": {...}}]` instead of the rules so far; returns how many there are."""
        self._rules = [(re.compile(rule["match"], re.DOTALL), rule["script"]) for rule in rules]
        return len(self._rules)

    def directives(self, prompt: str) -> script.Directives:
        """What holds for this prompt. Raises ValueError."""
        matching = (told for pattern, told in self._rules if pattern.search(prompt))
        return script.directives(prompt, {**self._defaults, **next(matching, {})})


@dataclass(frozen=True)
class Faults:
    """The faults of one attempt at one model call."""

    delay: float
    drip: float
    hang: bool
    drop: bool
    status: int
    """0: no error."""
    error_headers: dict[str, str]
    plain: bool
    broken: str
    """How the stream breaks halfway: `cut`, `stream_error`, `bad_frame`, or empty."""
    bad_json: bool
    context: int


def faults(told: script.Directives, step: int, attempt: int) -> Faults:
    """What goes wrong at this step and attempt (1 is the first). Raises ValueError for a bad number."""

    def due(name: str) -> bool:
        return attempt <= int(told.get(name) or 0)

    def here(name: str) -> bool:
        return told.get(name) is None or int(told[name]) == step

    status, _, times = str(told.get("error") or 0).partition("x")
    failing = here("error_at") and (not times or attempt <= int(times))
    broken = [name for name in ("cut", "stream_error", "bad_frame") if due(name)]
    retry_after = told.get("retry_after")
    return Faults(
        delay=float(told["delay"]),
        drip=float(told["drip"]),
        hang=bool(told.get("hang")),
        drop=due("drop"),
        status=int(status) if failing else 0,
        error_headers={"retry-after": str(retry_after)} if retry_after else {},
        plain=bool(told.get("plain")),
        broken=broken[0] if broken and here("cut_at") else "",
        bad_json=attempt == 1 and bool(told.get("bad_json")),
        context=int(told.get("context") or 0),
    )
