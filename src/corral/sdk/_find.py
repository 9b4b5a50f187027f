"""Which server a program speaks to, with which key, in which project.

In this order: what the program says, the context that CORRAL_CONTEXT names, CORRAL_URL with CORRAL_KEY, NODUS_API_URL
with NODUS_API_KEY, the context that `corral login` has put into use, and the `corral up` that runs with the same home.
An address and a key are never mixed from two of these: a key goes only to the server that it was given for.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

from corral.base.home import home

from . import contexts
from .errors import NotConfigured, UsageError

_FAMILIES = (("CORRAL_URL", "CORRAL_KEY"), ("NODUS_API_URL", "NODUS_API_KEY"))
_PROJECTS = ("CORRAL_PROJECT", "NODUS_PROJECT")


class Server(NamedTuple):
    """Where a server is, and the key for it."""

    url: str
    key: str


def server(url: str | None = None, key: str | None = None) -> Server:
    """The server. Raises NotConfigured when none is known, UsageError for half of an answer."""
    if url or key:
        return _checked(url, key, "url", "key")
    named = os.environ.get("CORRAL_CONTEXT")
    if not named:
        for url_name, key_name in _FAMILIES:
            if found := os.environ.get(url_name):
                return _checked(found, os.environ.get(key_name), url_name, key_name)
    known = contexts.load()
    if (name := named or known.current) not in ("", contexts.LOCAL):
        return Server(known.find(name).url, contexts.key(name))
    running = _running(home())
    if running is None:
        raise NotConfigured(
            f"no server is configured, and none runs with the home {home()}{_hint()}",
            "Start one with `corral up`, log in to one with `corral login`, or set CORRAL_URL and CORRAL_KEY.",
        )
    return running


def project(name: str | None = None) -> str:
    """The project to work in: the given one, that of the environment, that of the context in use, else `default`."""
    if name := name or next((found for key in _PROJECTS if (found := os.environ.get(key))), ""):
        return name
    named = os.environ.get("CORRAL_CONTEXT")
    if not named and any(os.environ.get(url) for url, _ in _FAMILIES):
        return "default"
    known = contexts.load()
    in_use = known.contexts.get(named or known.current)
    return in_use.project if in_use else "default"


def _checked(url: str | None, key: str | None, url_name: str, key_name: str) -> Server:
    if not url:
        raise UsageError(f"{key_name} is given without {url_name}", f"Give {url_name}, the server's address, too.")
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url_name} is {url!r}", "Give the server's address, such as http://127.0.0.1:8700.")
    if not key:
        raise UsageError(f"{url_name} is given without {key_name}", f"Give {key_name}, your API key for that server.")
    return Server(url, key)


def _running(directory: Path) -> Server | None:
    """The `corral up` of that home, if its process lives."""
    try:
        record = json.loads((directory / "server.json").read_text(encoding="utf-8"))
        os.kill(int(record["pid"]), 0)
        return Server(str(record["url"]), str(record["key"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hint() -> str:
    lonely = next((key for url, key in _FAMILIES if os.environ.get(key) and not os.environ.get(url)), "")
    return f" ({lonely} is set, but its address is not)" if lonely else ""
