"""Sandboxes by bubblewrap: namespaces, a system call filter, the machine's own programs read-only, no daemon, no image.

Works as root and as an ordinary user. As root every sandbox has a host uid of its own. The platform may die at any
line: sandboxes go on, and what they are is read from their directory.
"""

import os
import secrets
import threading
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from .. import bubblewrap, cgroups, diagnosis, guest, launch, limits, records, system
from .._base import Driver, DriverSettings, Limits, Probe, Sandbox, SandboxError, SandboxGone, SandboxSpec
from ..ids import check_id
from ..processes import start_time
from ..records import Place, Record
from ..removal import remove_tree
from ..supervised import SupervisedSandbox
from ..supervisor import Supervisor

_PROBE_LIMITS = Limits(memory=256 << 20, tmp=1 << 20, shm=1 << 20)
_PROBE_SECONDS = 60


@dataclass(frozen=True)
class _Ready:
    """What a successful probe found."""

    means: launch.Means
    groups: cgroups.Groups | None
    probe: Probe


class BwrapDriver:
    """Driver `bwrap`."""

    name = "bwrap"

    def __init__(self, settings: DriverSettings) -> None:
        self._home = Path(settings.directory).absolute()
        self._settings = settings
        self._own_uids = os.geteuid() == 0 and _maps(records.FIRST_UID + records.UIDS - 1)
        self._ready: _Ready | None = None
        self._probing = threading.Lock()

    async def probe(self) -> Probe:
        try:
            return (await to_thread.run_sync(self._prepare)).probe
        except _Unable as error:
            return Probe(works=False, detail=error.detail, remedy=error.remedy)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        check_id("sandbox id", spec.id)
        limits.check(spec)
        return await to_thread.run_sync(self._create, spec)

    async def adopt(self, sandbox_id: str) -> Sandbox | None:
        place = Place(self._home, check_id("sandbox id", sandbox_id))

        def look() -> Sandbox | None:
            with place.locked():
                return self._running(place)

        return await to_thread.run_sync(look)

    async def list(self) -> AsyncIterator[str]:
        for name in await to_thread.run_sync(records.names, self._home):
            yield name

    async def destroy(self, sandbox_id: str, *, keep_files: bool = False) -> None:
        place = Place(self._home, check_id("sandbox id", sandbox_id))
        await to_thread.run_sync(self._destroy, place, keep_files)

    def workspace(self, sandbox_id: str) -> str | None:
        path = Place(self._home, check_id("sandbox id", sandbox_id)).workspace
        return str(path) if path.is_dir() else None

    def _prepare(self) -> _Ready:
        """What sandboxes are made with, found by making one; done once. Raises _Unable."""
        with self._probing:
            if self._ready is None:
                self._ready = self._try()
            return self._ready

    def _try(self) -> _Ready:
        if wrong := diagnosis.unsupported():
            raise _Unable(*wrong)
        try:
            program = guest.load()
        except SandboxError as error:
            raise _Unable(str(error), "reinstall corral, or compile the sandbox program in a source tree") from error
        self._home.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._sweep()
        groups = _usable(cgroups.detect(), self._group("probe"))
        etc = system.copy_etc(self._home / ".system")
        tried = []
        for candidate in bubblewrap.candidates(self._settings.bwrap):
            means = launch.Means(candidate, program, etc, watch_memory=groups is None)
            try:
                self._try_means(means, groups)
            except SandboxError as error:
                tried.append(f"{candidate.path}: {error}")
            else:
                return _Ready(means, groups, self._found(candidate, groups))
        said = "; ".join(tried) or "there is no bwrap"
        raise _Unable(said, diagnosis.remedy(said))

    def _try_means(self, means: launch.Means, groups: cgroups.Groups | None) -> None:
        """Make a sandbox and end it. Raises SandboxError."""
        place = Place(self._home, f".probe-{secrets.token_hex(4)}")
        spec = SandboxSpec(id="probe", limits=_PROBE_LIMITS, unattended_seconds=_PROBE_SECONDS)
        try:
            self._start(place, spec, _Ready(means, groups, Probe(works=True, detail="")))
        finally:
            launch.stop(place, place.load())
            remove_tree(place.path)

    def _sweep(self) -> None:
        """Remove what probes of platforms that died have left."""
        for name in records.names(self._home, hidden=True):
            place = Place(self._home, name)
            if name.startswith(".probe-") and time.time() - place.path.stat().st_mtime > _PROBE_SECONDS:
                launch.stop(place, place.load())
                remove_tree(place.path)

    def _found(self, program: bubblewrap.Program, groups: cgroups.Groups | None) -> Probe:
        who = "root, each sandbox with a host uid of its own" if self._own_uids else f"uid {os.geteuid()}"
        number = ".".join(map(str, bubblewrap.version(program.path)))
        limits = f"cgroups v{groups.version}" if groups else "no cgroups"
        has_cpu = groups is not None and "cpu" in groups.parents
        return Probe(
            works=True,
            detail=f"bubblewrap {number} ({program.path}), as {who}, {limits}",
            guarantees={
                "memory": "hard" if groups else "soft",
                "processes": "hard",
                "cpu": "hard" if has_cpu else "none",
                "disk": "none",
                "network": "hard",
            },
        )

    def _group(self, name: str) -> str:
        return f"corral-{zlib.crc32(os.fsencode(self._home)):08x}-{name.lstrip('.')}"

    def _create(self, spec: SandboxSpec) -> Sandbox:
        ready = self._prepare()
        place = Place(self._home, spec.id)
        with place.locked():
            if (running := self._running(place)) is not None:
                return running
            launch.stop(place, place.load())
            fresh = not place.path.exists()
            try:
                record = self._start(place, spec, ready)
            except BaseException:
                if fresh:
                    remove_tree(place.path)
                raise
            return self._sandbox(place, record)

    def _start(self, place: Place, spec: SandboxSpec, ready: _Ready) -> Record:
        try:
            uid = place.make(self._own_uids)
            name = self._group(place.path.name)
            paths = ready.groups.paths(name) if ready.groups else []
            record = Record(spec.working_dir, dict(spec.env), host_uid=uid, cgroups=paths)
            place.save(record)  # before anything exists that only it can find again
            if ready.groups:
                ready.groups.create(name, spec.limits)
        except OSError as error:
            raise SandboxError(f"the sandbox did not start: {error}") from error
        launch.launch(place, record, spec, spec.secrets, ready.means)
        return record

    def _running(self, place: Place) -> Sandbox | None:
        record = place.load()
        if record is None or (record.pid and not record.runs()):
            return None
        try:
            pid = Supervisor(place.path).ping()
        except SandboxGone:
            return None
        if pid != record.pid:  # the platform died before it could write it down
            record.pid, record.started, record.boot = pid, start_time(pid) or "", records.boot_id()
            place.save(record)
        return self._sandbox(place, record)

    def _sandbox(self, place: Place, record: Record) -> Sandbox:
        return SupervisedSandbox(place.path.name, Supervisor(place.path), place.spool, record.working_dir, record.env)

    def _destroy(self, place: Place, keep_files: bool) -> None:
        if not place.path.exists():
            return
        with place.locked():
            try:
                record = place.load()
            except SandboxError:
                record = None  # damaged: the control socket still tells who runs
            try:
                launch.stop(place, record)
                if keep_files:
                    place.clear()
                else:
                    remove_tree(place.path)
            except OSError as error:
                raise SandboxError(f"the sandbox {place.path.name} could not be removed: {error}") from error


class _Unable(SandboxError):
    """No sandbox can be made on this machine."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(f"no sandbox can be made here: {detail}. To fix it: {remedy}")
        self.detail = detail
        self.remedy = remedy


def _maps(uid: int) -> bool:
    """Whether this uid exists in our user namespace: in a container root may have few."""
    ranges = (map(int, line.split()) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(first <= uid < first + count for first, _, count in ranges)


def _usable(groups: cgroups.Groups | None, name: str) -> cgroups.Groups | None:
    """The groups, if one can be made with limits."""
    if groups is None:
        return None
    try:
        groups.create(name, _PROBE_LIMITS)
        return groups
    except OSError:
        return None
    finally:
        cgroups.remove(groups.paths(name))


def create_driver(settings: DriverSettings) -> Driver:
    """The driver for an installation's sandboxes in `settings.directory`."""
    return BwrapDriver(settings)
