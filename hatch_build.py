"""Compiles the program that runs inside sandboxes (src/corral/sandboxes/guest) when the package is built or installed.

It is one static binary for each architecture, so it needs nothing of the system it runs in and the wheel stays one for
all. `python hatch_build.py` compiles in place without building a package.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by hand, without hatchling
    BuildHookInterface = object  # type: ignore[assignment, misc]

GUEST = Path("src/corral/sandboxes/guest")
MACHINES = ("x86_64", "aarch64")
FLAGS = ("-std=gnu11", "-static", "-Os", "-s", "-Wall", "-Wextra")


def digest(*paths: Path) -> str:
    """The SHA-256 of the files' bytes, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def compiler(machine: str) -> list[str] | None:
    """The command that compiles for a machine, or None when there is none here."""
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl"]
    native = next((found for name in ("gcc", "cc") if (found := shutil.which(name))), None)
    return [native] if native and platform.machine() == machine else None


def build(root: Path, say: Callable[[str], object]) -> list[Path]:
    """Compile what is not up to date; the files the package needs. Raises RuntimeError when nothing can compile."""
    guest = root / GUEST
    sources = sorted(guest.glob("*.c"))
    record = guest / "bin" / "sbx.sha256"
    wanted = digest(*sources, *sorted(guest.glob("*.h")), Path(__file__))
    known = json.loads(record.read_text("utf-8")) if record.exists() else {}
    if known.get("sources") == wanted and set(known.get("binaries", ())) == set(MACHINES) and intact(record, known):
        return [record, *(record.parent / f"sbx-{machine}" for machine in MACHINES)]
    binaries = {}
    for machine in MACHINES:
        command = compiler(machine)
        if command is None:
            say(f"sbx for {machine} is left out: ziglang is missing (pip install ziglang), which compiles for both")
            continue
        binaries[machine] = compile_guest(root, command, sources, record.parent / f"sbx-{machine}")
    if not binaries:
        raise RuntimeError("no C compiler: install ziglang (pip install ziglang), or gcc with a static libc")
    record.write_text(json.dumps({"sources": wanted, "binaries": binaries}, indent=2) + "\n", "utf-8")
    return [record, *(record.parent / f"sbx-{machine}" for machine in binaries)]


def intact(record: Path, known: dict[str, Any]) -> bool:
    """Whether the binaries are those of the record."""
    paths = {record.parent / f"sbx-{machine}": sha256 for machine, sha256 in known["binaries"].items()}
    return all(path.exists() and digest(path) == sha256 for path, sha256 in paths.items())


def compile_guest(root: Path, command: list[str], sources: list[Path], output: Path) -> str:
    """Compile the sources into one static binary; its SHA-256."""
    output.parent.mkdir(exist_ok=True)
    cache = root / "build" / "zig"
    cache.mkdir(parents=True, exist_ok=True)
    env = os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    temporary = output.with_name(f"{output.name}.{os.getpid()}")
    done = subprocess.run([*command, *FLAGS, "-o", temporary, *sources], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    temporary.chmod(0o755)
    temporary.replace(output)
    return digest(output)


class BuildHook(BuildHookInterface):  # type: ignore[type-arg, unused-ignore]
    """Called by hatchling for wheels, editable ones too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the binaries, which are not under version control, to the package."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        files = build(root, self.app.display_warning)
        if version != "editable":
            for path in files:
                build_data["force_include"][str(path)] = str(path.relative_to(root / "src"))


if __name__ == "__main__":
    build(Path(__file__).parent, lambda text: sys.stderr.write(f"{text}\n"))
