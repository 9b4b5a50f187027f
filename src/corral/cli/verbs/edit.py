"""Change an object in your editor ($VISUAL, then $EDITOR).

Only what you changed is sent, and only if nobody else has changed the object meanwhile. When the server refuses, the
editor opens again with the reason, and if you give up, your text is kept in a file whose name is told.

For example:
  corral edit agent/helper
  EDITOR="code --wait" corral edit agent/helper
"""

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from corral.cli import changes, connection, documents, manifests, printing, targets
from corral.cli.failures import Failure, usage
from corral.cli.options import OneTarget, Project
from corral.cli.outcomes import changed
from corral.cli.targets import Target
from corral.sdk import Client


def command(what: OneTarget, project: Project = "") -> None:
    target = targets.one(what)
    editor = _editor()
    before = _read(target, project)
    old = changes.editable(before)
    file = _written(target, old)
    shown = written = file.read_bytes()
    while True:
        try:
            _edited(editor, file)
            action = _sent(target, project, before, _changes(file, target, old))
            break
        except Failure as failure:
            text = file.read_bytes() if file.exists() else written
            if text == written:
                file.unlink(missing_ok=True)
                raise
            if text == shown or failure.reason == "Conflict" or not sys.stdin.isatty():
                failure.fix = f"{failure.fix} Your text is kept in {file}.".strip()
                raise
            shown = _explained(file, failure)
    file.unlink(missing_ok=True)
    printing.out(f"{target} {action}")


def _editor() -> list[str]:
    """The command that edits a file. Raises Failure when there is none."""
    configured = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    found = shlex.split(configured) if configured else [name for name in ("nano", "vi") if shutil.which(name)][:1]
    if not found:
        raise usage("no editor is configured", "Set EDITOR, such as EDITOR=nano.")
    return found


def _read(target: Target, project: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def work(client: Client) -> None:
        found.update(await client.get(target.plural, target.name))

    connection.run(project, work)
    return found


def _written(target: Target, document: dict[str, Any]) -> Path:
    """A file of our own with the object; only we can read it."""
    handle, name = tempfile.mkstemp(prefix=f"corral-{target.kind.__name__.lower()}-{target.name}-", suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(f"# {target}: change it, save, and leave the editor. Without a change nothing is sent.\n")
        stream.write(documents.as_yaml(document) + "\n")
    return Path(name)


def _edited(editor: list[str], file: Path) -> None:
    try:
        code = subprocess.run([*editor, str(file)], check=False).returncode
    except OSError as error:
        raise usage(f"{editor[0]} cannot be run: {error.strerror}", "Set EDITOR to an editor that is there.") from None
    if code:
        raise Failure(f"{editor[0]} ended with exit code {code}; nothing is changed", reason="NotEdited")


def _explained(file: Path, failure: Failure) -> bytes:
    """Put what was wrong above the text, in place of the comment that is there; the whole file."""
    # What is not UTF-8 may be just what was wrong: it is kept as it is.
    text = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines(keepends=True)
    body = "".join(itertools.dropwhile(lambda line: line.startswith("#"), text))
    notes = [*failure.lines(), "Correct it, or leave the editor without a change to give up."]
    head = "".join(f"# {line}\n" for note in notes for line in printing.safe(note).splitlines())
    file.write_text(head + body, encoding="utf-8", errors="surrogateescape")
    return file.read_bytes()


def _changes(file: Path, target: Target, old: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from what was written to what is there now."""
    (new, *more) = manifests.read(str(file))
    if more or targets.described(new) != target:
        raise usage(f"the text does not describe {target} any more", "Leave kind and name as they are.")
    return changes.between(old, new)


def _sent(target: Target, project: str, before: dict[str, Any], patch: dict[str, Any]) -> str:
    if not patch:
        return "unchanged"
    action = ""

    async def work(client: Client) -> None:
        nonlocal action
        # The version makes the server refuse when somebody else wrote meanwhile.
        version = {"resourceVersion": before["metadata"]["resourceVersion"]}
        sent = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        action = changed(before, await client.patch(target.plural, target.name, sent), "edited")

    connection.run(project, work)
    return action
