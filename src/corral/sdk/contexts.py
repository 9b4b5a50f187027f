"""The servers that somebody has logged in to: `$XDG_CONFIG_HOME/corral/config.yaml`, and one file for each key.

Keys are kept apart, so that the configuration can be shown and copied without them. Nobody but the owner may read
either: both are written with mode 0600, and a key that others can read is refused.
"""

import os
import re
import tempfile
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from .errors import NotConfigured, UsageError

LOCAL = "local"
"""The name for the `corral up` with the same home, which needs no context of its own."""
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]{0,62}")


@dataclass(frozen=True)
class Context:
    """A server, the project to work in there, and which of its keys is ours."""

    url: str
    project: str = "default"
    org: str = ""
    key_name: str = ""
    """The APIKey on the server, for `logout`; empty when it is not known."""


@dataclass
class Contexts:
    """All contexts by name, and the one in use; `local` or an empty name is the server of this machine."""

    current: str = ""
    contexts: dict[str, Context] = field(default_factory=dict)

    def find(self, name: str) -> Context:
        """The context of that name. Raises UsageError with those that exist."""
        if name not in self.contexts:
            known = ", ".join([*self.contexts, LOCAL])
            raise UsageError(f"there is no context {name!r}", f"The contexts are {known}; `corral login` makes one.")
        return self.contexts[name]


def directory() -> Path:
    """Where configuration and keys are; it is made when something is written."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "corral"


def file() -> Path:
    """The configuration."""
    return directory() / "config.yaml"


def checked(name: str) -> str:
    """The name of a context that is to be written. Raises UsageError when it cannot be one."""
    if name == LOCAL or not _NAME.fullmatch(name):
        rule = f"Use letters, digits, `-`, `_` and `.`, at most 63; `{LOCAL}` is the server of this machine."
        raise UsageError(f"{name!r} cannot be the name of a context", rule)
    return name


def load() -> Contexts:
    """What is configured; nothing when there is no file. Raises UsageError when the file is not what `save` writes."""
    try:
        text = file().read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file()} cannot be read: {error}") from None
    try:
        return _contexts(yaml.safe_load(text) or {})
    except (yaml.YAMLError, TypeError, ValueError, AttributeError) as error:
        problem = str(error).splitlines()[0]
        raise UsageError(
            f"{file()} is not a configuration: {problem}", "Correct it, or delete it and log in."
        ) from None


def save(contexts: Contexts) -> None:
    """Write the configuration, all of it or nothing."""
    document = {
        "current": contexts.current,
        "contexts": {name: asdict(context) for name, context in contexts.contexts.items()},
    }
    _write(file(), yaml.safe_dump(document, sort_keys=False))


def key(name: str) -> str:
    """The key of a context. Raises NotConfigured when there is none, UsageError when others can read it."""
    path = _key_file(name)
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(
                f"others can read the key in {path}", f"Take it back with `chmod 600 {path}`, or log in again."
            )
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        fix = f"Log in again: `corral login --name {name}`."
        raise NotConfigured(f"the context {name!r} has no key", fix, reason="NotLoggedIn") from None


def add(name: str, context: Context, secret: str) -> None:
    """Keep a context with its key, in place of one of the same name, and use it from now on."""
    contexts = load()
    _write(_key_file(checked(name)), f"{secret}\n")
    contexts.contexts[name] = context
    contexts.current = name
    save(contexts)


def remove(name: str) -> None:
    """Forget a context and its key. Raises UsageError when there is no such context."""
    contexts = load()
    contexts.find(name)
    del contexts.contexts[name]
    if contexts.current == name:
        contexts.current = ""
    save(contexts)
    _key_file(name).unlink(missing_ok=True)


def _key_file(name: str) -> Path:
    return directory() / "keys" / name


def _contexts(document: dict[str, Any]) -> Contexts:
    known = {item.name for item in fields(Context)}
    found = {}
    for name, entry in (document.get("contexts") or {}).items():
        if wrong := set(entry) - known:
            raise ValueError(f"the context {name} has a field {min(wrong)!r}")
        if not all(isinstance(value, str) for value in entry.values()):
            raise ValueError(f"the fields of the context {name} must be text")
        # The name becomes a file's name.
        found[checked(str(name))] = Context(**entry)
    return Contexts(str(document.get("current") or ""), found)


def _write(path: Path, text: str) -> None:
    """Replace a file by one that only we can read."""
    try:
        directory().parent.mkdir(parents=True, exist_ok=True)
        for folder in (directory(), path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).replace(path)
    except OSError as error:
        raise NotConfigured(f"{path} cannot be written: {error.strerror}") from error
