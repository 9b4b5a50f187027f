"""Sandboxes outlive their platform, are found again, and end when they should."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from corral.sandboxes import Driver, DriverSettings, SandboxError, SandboxGone, SandboxSpec
from corral.sandboxes.drivers import bwrap
from corral.sandboxes.processes import start_time
from corral.sandboxes.records import FIRST_UID, Place, Record
from sandboxes.boxes import ROOT, SMALL, run, sh, until

PLATFORM = """
import ctypes, itertools, os, resource, signal, sys
import anyio
from corral.sandboxes import *
from corral.sandboxes.drivers import bwrap
from corral.sandboxes.records import Place

async def main(script):
    driver = bwrap.create_driver(DriverSettings(directory=sys.argv[1]))
    limits = Limits(tmp=1 << 20, shm=1 << 20, memory=256 << 20)
    {body}
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main, "")
"""


def killed_platform(home: Path, body: str) -> None:
    """Another platform process that does this and is killed."""
    source = PLATFORM.format(body=textwrap.indent(textwrap.dedent(body), "    ").strip())
    done = subprocess.run([sys.executable, "-c", source, str(home)], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr


def record_of(home: Path, name: str) -> Record:
    record = Place(home, name).load()
    assert record is not None
    return record


def existing(paths: Iterable[str | Path]) -> list[str | Path]:
    return [path for path in paths if Path(path).exists()]


async def gone(pid: int) -> bool:
    return start_time(pid) is None


async def test_commands_go_on_when_the_platform_is_killed(boxes: Driver, home: Path) -> None:
    body = """
    box = await driver.create(SandboxSpec(id="box", limits=limits, env={"A": "1"}))
    await box.start("long", ["sh", "-c", "echo before; while ! [ -e go ]; do sleep 0.02; done; echo after; exit 7"])
    await box.start("short", ["sh", "-c", "echo $A; echo err >&2; exit 9"])
    """
    await to_thread.run_sync(killed_platform, home, body)
    box = await boxes.adopt("box")
    assert box is not None
    assert await box.state("long") == "running"
    assert await box.start("long", ["echo", "again"]) == "exists"
    short = await box.follow("short")
    assert (short.exit_code, short.stdout.head, short.stderr.head) == (9, b"1\n", b"err\n")
    await box.write_file("go", b"")
    with anyio.fail_after(20):
        long = await box.follow("long")
    assert (long.exit_code, long.stdout.head) == (7, b"before\nafter\n")
    assert await sh(box, "echo $A") == "1\n"


@pytest.mark.parametrize("saves", [1, 2])
async def test_a_platform_killed_while_it_creates(boxes: Driver, home: Path, saves: int) -> None:
    """Before the start, and after it but before the pid is written: nothing is lost, and all can be ended."""
    body = f"""
    await driver.probe()
    save, calls = Place.save, itertools.count(1)
    def killing(place, record):
        if next(calls) == {saves}:
            os.kill(os.getpid(), signal.SIGKILL)
        save(place, record)
    Place.save = killing
    await driver.create(SandboxSpec(id="box", limits=limits))
    """
    await to_thread.run_sync(killed_platform, home, body)
    assert [name async for name in boxes.list()] == ["box"]
    adopted = await boxes.adopt("box")
    assert (adopted is None) == (saves == 1)
    if adopted is not None:
        assert (await run(adopted, "true")).exit_code == 0
        assert record_of(home, "box").runs()
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    assert (await run(box, "echo", "works")).stdout.head == b"works\n"


async def test_what_a_killed_platform_left_can_be_destroyed_unread(boxes: Driver, home: Path) -> None:
    await boxes.create(SandboxSpec(id="box", limits=SMALL))
    record = record_of(home, "box")
    (Place(home, "box").path / "meta.json").unlink()
    await boxes.destroy("box")
    assert await gone(record.pid)
    assert [name async for name in boxes.list()] == []


async def test_a_damaged_record(boxes: Driver, home: Path) -> None:
    await boxes.create(SandboxSpec(id="box", limits=SMALL))
    pid = record_of(home, "box").pid
    (Place(home, "box").path / "meta.json").write_text("{")
    with pytest.raises(SandboxError, match="damaged"):
        await boxes.adopt("box")
    await boxes.destroy("box")
    assert await gone(pid)


async def test_a_record_whose_pid_is_another_process(boxes: Driver, home: Path) -> None:
    """After a restart of the machine a pid means something else: it is neither adopted nor killed."""
    await boxes.create(SandboxSpec(id="box", limits=SMALL))
    record = record_of(home, "box")
    os.kill(record.pid, signal.SIGKILL)
    await until(lambda: gone(record.pid))
    async with await anyio.open_process(["sleep", "4000"]) as other:
        record.pid, record.started = other.pid, f"{int(start_time(other.pid) or 0) - 1}"
        Place(home, "box").save(record)
        assert await boxes.adopt("box") is None
        await boxes.destroy("box")
        assert other.returncode is None and start_time(other.pid) is not None
        other.kill()


async def test_two_creates_at_once_make_one_sandbox(boxes: Driver, home: Path) -> None:
    other = bwrap.create_driver(DriverSettings(directory=str(home)))
    states: list[str] = []

    async def create(driver: Driver) -> None:
        box = await driver.create(SandboxSpec(id="box", limits=SMALL))
        states.append(await box.start("c", ["sleep", "4000"]))

    async with anyio.create_task_group() as group:
        for driver in (boxes, other, boxes, other):
            group.start_soon(create, driver)
    assert sorted(states) == ["exists", "exists", "exists", "started"]


async def test_a_sandbox_that_died(boxes: Driver, home: Path) -> None:
    """Its commands are never taken for ended or unknown, and never run twice; its files are there."""
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    await box.start("done", ["sh", "-c", "echo done > file; exit 3"])
    await box.follow("done")
    await box.start("lost", ["sleep", "4000"])
    os.kill(record_of(home, "box").pid, signal.SIGKILL)
    with pytest.raises(SandboxGone), anyio.fail_after(20):
        await box.follow("lost")
    with pytest.raises(SandboxGone):
        await box.start("new", ["true"])
    with pytest.raises(SandboxGone):
        await box.read_file("file")
    assert await boxes.adopt("box") is None
    again = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    assert await again.start("lost", ["true"]) == "exists"
    for ask in (again.state, again.follow):
        with pytest.raises(SandboxGone, match="not known"):
            await ask("lost")
    assert (await again.follow("done")).exit_code == 3
    assert await again.read_file("file") == b"done\n"


async def test_the_dead_man_timer(boxes: Driver, home: Path) -> None:
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL, unattended_seconds=1))
    pid = record_of(home, "box").pid
    await box.start("attended", ["sh", "-c", "sleep 2.5; echo finished"])
    assert (await box.follow("attended")).stdout.head == b"finished\n"
    await box.start("unattended", ["sleep", "4000"])
    await until(lambda: gone(pid))
    with pytest.raises(SandboxGone):
        await box.state("unattended")


async def test_a_service_manager_can_end_it(boxes: Driver, home: Path) -> None:
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    pid = record_of(home, "box").pid
    await sh(box, "kill -TERM 1")
    assert (await run(box, "true")).exit_code == 0
    os.kill(pid, signal.SIGTERM)
    await until(lambda: gone(pid))


async def test_timeouts_hold_without_a_platform(boxes: Driver, home: Path) -> None:
    body = """
    box = await driver.create(SandboxSpec(id="box", limits=limits))
    await box.start("c", ["sleep", "4000"], timeout=0.3)
    """
    await to_thread.run_sync(killed_platform, home, body)
    box = await boxes.adopt("box")
    assert box is not None

    async def over() -> bool:
        return await box.state("c") == "exited"

    await until(over)
    assert (await box.follow("c")).timed_out


async def test_nothing_is_left_after_destroy(boxes: Driver, home: Path) -> None:
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    await box.start("c", ["sleep", "4000"])
    record = record_of(home, "box")
    deep = "import os\nfor _ in range(1500):\n  os.mkdir('d'); os.chdir('d')\nopen('f', 'w')"
    assert (await run(box, "python3", "-c", deep)).exit_code == 0
    await boxes.destroy("box")
    assert await gone(record.pid)
    assert existing([*record.cgroups, Place(home, "box").path]) == []


async def test_a_failed_create_leaves_nothing(boxes: Driver, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec, words in (
        (SandboxSpec(id="box", working_dir="/usr/work"), "working_dir"),
        (SandboxSpec(id="box", working_dir="relative"), "working_dir"),
        (SandboxSpec(id="box", image="other"), "image"),
        (SandboxSpec(id="box", unattended_seconds=0), "unattended_seconds"),
        (SandboxSpec(id="box", secrets={"a/b": b""}), "secret"),
    ):
        with pytest.raises(SandboxError, match=words):
            await boxes.create(spec)
        assert [name async for name in boxes.list()] == []


if ROOT:  # who else can mount a small file system?

    async def test_a_full_spool_counts_as_dropped(boxes: Driver, home: Path) -> None:
        place = Place(home, "box")
        place.make(own_uid=True)
        await anyio.run_process(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", str(place.spool)])
        try:
            box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
            await box.start("c", ["sh", "-c", "head -c 500000 /dev/zero; exit 6"])
            result = await box.follow("c")
            assert result.exit_code == 6
            assert result.stdout.size + result.stdout.dropped == 500_000 and 0 < result.stdout.size < 65536
            with pytest.raises(SandboxError, match="No space left"):
                await box.start("next", ["true"])
            assert await box.state("next") == "unknown"
            os.kill(record_of(home, "box").pid, signal.SIGKILL)
            await until(lambda: gone(record_of(home, "box").pid))
        finally:
            await anyio.run_process(["umount", "-l", str(place.spool)])


async def test_commands_leave_descriptors_for_the_platform(boxes: Driver, home: Path) -> None:
    body = """
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    box = await driver.create(SandboxSpec(id="box", limits=limits))
    started = 0
    try:
        while started < 200:
            await box.start(f"c{started}", ["sleep", "4000"])
            started += 1
    except SandboxError as error:
        assert "Too many open files" in str(error), error
    assert 10 < started < 60, started
    assert await box.state(f"c{started}") == "unknown"
    ended = []
    async def follow(name):
        ended.append((await box.follow(name)).signal)
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(follow, f"c{number}")
        await anyio.wait_all_tasks_blocked()
        for number in range(10):
            assert await box.state(f"c{number}") == "running"
            await box.kill(f"c{number}", grace=0)
    assert ended == [9] * 10
    """
    await to_thread.run_sync(killed_platform, home, body)
    box = await boxes.adopt("box")
    assert box is not None and await box.state("c10") == "running"


async def test_a_platform_that_orphans_are_left_to_has_no_zombies(boxes: Driver, home: Path) -> None:
    """As PID 1 of a container."""
    body = """
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    await driver.create(SandboxSpec(id="box", limits=limits))
    await driver.destroy("box")
    try:
        await driver.create(SandboxSpec(id="wrong", limits=limits, working_dir="/a", secrets={"a/b": b""}))
    except SandboxError:
        children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        assert not children, children
    """
    await to_thread.run_sync(killed_platform, home, body)


@pytest.fixture
def passable() -> Iterator[Path]:
    """A directory that every uid can pass, as those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="corral-test-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


async def test_a_directory_that_others_may_pass(passable: Path) -> None:
    """Where the sandbox's uid can reach its files by path, no mount namespace is needed for the start."""
    driver = bwrap.create_driver(DriverSettings(directory=str(passable / "home")))
    box = await driver.create(SandboxSpec(id="box", limits=SMALL))
    try:
        await box.write_file("file", b"x")
        workspace = anyio.Path(driver.workspace("box") or "")
        assert await (workspace / "file").read_bytes() == b"x"
        status = await workspace.stat()
        assert status.st_mode & 0o777 == 0o700 and (status.st_uid >= FIRST_UID) == ROOT
    finally:
        await driver.destroy("box")
