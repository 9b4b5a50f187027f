"""What every driver promises."""

import anyio
import pytest

from corral.sandboxes import Driver, Limits, Sandbox, SandboxError, SandboxGone, SandboxSpec
from sandboxes.boxes import SMALL, run, sh, until


@pytest.fixture
async def sandbox(driver: Driver) -> Sandbox:
    return await driver.create(SandboxSpec(id="one", limits=SMALL, env={"FROM_SPEC": "a b"}))


async def test_exit_code_and_both_streams(sandbox: Sandbox) -> None:
    result = await run(sandbox, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.signal, result.timed_out) == (3, 0, False)
    assert (result.stdout.head, result.stdout.tail, result.stdout.size) == (b"out\n", b"", 4)
    assert (result.stderr.head, result.stderr.dropped) == (b"err\n", 0)


async def test_standard_input_is_empty(sandbox: Sandbox) -> None:
    result = await run(sandbox, "cat")
    assert (result.exit_code, result.stdout.size) == (0, 0)


async def test_the_driver_says_how_it_works(driver: Driver) -> None:
    probe = await driver.probe()
    assert probe.works, probe
    assert set(probe.guarantees) == {"memory", "processes", "cpu", "disk", "network"}


async def test_a_command_that_cannot_be_run(sandbox: Sandbox) -> None:
    absent = await run(sandbox, "no-such-program")
    assert absent.exit_code == 127 and b"no-such-program" in absent.stderr.head
    assert (await run(sandbox, "/")).exit_code == 126


async def test_a_command_id_runs_once(sandbox: Sandbox) -> None:
    script = ["sh", "-c", "echo ran >> once"]
    assert await sandbox.state("c") == "unknown"
    assert await sandbox.start("c", script) == "started"
    assert await sandbox.start("c", script) == "exists"
    await sandbox.follow("c")
    assert await sandbox.start("c", script) == "exists"
    assert await sandbox.state("c") == "exited"
    assert await sandbox.read_file("once") == b"ran\n"


async def test_following_again_gives_the_same(sandbox: Sandbox) -> None:
    await sandbox.start("c", ["sh", "-c", "seq 10000; echo e >&2; exit 4"])
    first, second = await sandbox.follow("c", keep=100), await sandbox.follow("c", keep=100)
    assert first == second
    assert (first.exit_code, len(first.stdout.head), len(first.stdout.tail)) == (4, 100, 100)
    assert first.stdout.size == 48894 and first.stdout.tail.endswith(b"9999\n10000\n")


async def test_output_comes_while_the_command_runs(sandbox: Sandbox) -> None:
    seen: list[tuple[str, bytes]] = []

    async def take(stream: str, data: bytes) -> None:
        seen.append((stream, data))
        if b"first" in data:
            await sandbox.write_file("go", b"")

    await sandbox.start("c", ["sh", "-c", "echo first; while ! [ -e go ]; do sleep 0.02; done; echo second >&2"])
    with anyio.fail_after(20):
        await sandbox.follow("c", on_output=take)
    assert seen == [("stdout", b"first\n"), ("stderr", b"second\n")]


async def test_a_signal_is_told_as_shells_do(sandbox: Sandbox) -> None:
    result = await run(sandbox, "sh", "-c", "kill -SEGV $$")
    assert (result.exit_code, result.signal, result.timed_out) == (139, 11, False)


async def test_timeout(sandbox: Sandbox) -> None:
    result = await run(sandbox, "sh", "-c", "trap '' TERM; sleep 600 & wait; wait", timeout=0.2)
    assert result.timed_out and result.signal in (9, 15) and result.exit_code == 128 + result.signal


async def test_kill(sandbox: Sandbox) -> None:
    await sandbox.start("polite", ["sh", "-c", "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.02; done"])
    await sandbox.start("deaf", ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done"])
    for name in ("polite", "deaf"):
        await _printed(sandbox, name, b"up")
    await sandbox.kill("polite")
    await sandbox.kill("deaf", grace=0.1)
    with anyio.fail_after(20):
        polite, deaf = await sandbox.follow("polite"), await sandbox.follow("deaf")
    assert polite.exit_code == 5 and polite.stdout.head.endswith(b"bye\n")
    assert deaf.exit_code == 137
    await sandbox.kill("polite")


async def _printed(sandbox: Sandbox, command_id: str, text: bytes) -> None:
    """Wait until the command has printed the text."""
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            async def take(_: str, data: bytes) -> None:
                if text in data:
                    group.cancel_scope.cancel()

            await sandbox.follow(command_id, on_output=take)


async def test_a_background_process_does_not_hold_up_the_result(sandbox: Sandbox) -> None:
    with anyio.fail_after(20):
        result = await run(sandbox, "sh", "-c", "sleep 600 & echo started")
    assert result.stdout.head == b"started\n"


async def test_many_commands_at_once(sandbox: Sandbox) -> None:
    codes: list[int] = []

    async def one(number: int) -> None:
        codes.append((await run(sandbox, "sh", "-c", f"sleep 0.1; exit {number}")).exit_code)

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(one, number)
    assert sorted(codes) == list(range(30))


async def test_environment_and_directory(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_PLATFORM", "leaked")
    await sandbox.write_file("sub/dir/file", b"")
    text = await sh(sandbox, 'echo "$FROM_SPEC,$OWN"; env; ls', cwd="/workspace/sub/dir", env={"OWN": "x=y"})
    assert text.startswith("a b,x=y\n") and text.endswith("file\n") and "leaked" not in text


async def test_output_over_the_limit_is_counted(driver: Driver) -> None:
    limits = Limits(output=100_000, memory=SMALL.memory, tmp=SMALL.tmp, shm=SMALL.shm)
    sandbox = await driver.create(SandboxSpec(id="flood", limits=limits))
    result = await run(sandbox, "sh", "-c", "head -c 3000000 /dev/zero; echo short >&2")
    assert (result.exit_code, result.stdout.size, result.stdout.dropped) == (0, 100_000, 2_900_000)
    assert (result.stderr.size, result.stderr.dropped) == (6, 0)
    await sandbox.start("c", ["sh", "-c", "head -c 150000 /dev/zero"])
    await sandbox.follow("c")
    assert await sandbox.save_output("c", "stdout", "saved/out.bin") == 100_000
    assert await sandbox.read_file("/workspace/saved/out.bin") == bytes(100_000)


async def test_files(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 8192
    await sandbox.write_file("/workspace/a/b/data.bin", data)
    assert await sandbox.read_file("a/b/data.bin") == data
    await sandbox.write_file("a/b/data.bin", b"short")
    assert await sandbox.read_file("a/b/data.bin") == b"short"
    await sandbox.write_file("a/run", b"#!/bin/sh\necho it runs\n", mode=0o755)
    assert (await run(sandbox, "./a/run")).stdout.head == b"it runs\n"
    entries = await sandbox.list_dir("a")
    assert [(e.name, e.dir, e.mode) for e in entries] == [("b", True, 0o755), ("run", False, 0o755)]
    assert entries[1].size == 23
    assert await sandbox.list_dir("a", limit=1) == entries[:1]


async def test_file_errors_name_the_path(sandbox: Sandbox) -> None:
    await sandbox.write_file("big", bytes(1001))
    await sh(sandbox, "mkfifo fifo; ln -s loop loop")
    for path, words in (
        ("absent", "No such file"),
        (".", "regular file|directory"),
        ("fifo", "regular file"),
        ("loop", "symbolic links"),
        ("/dev/null", "regular file"),
        ("big", "larger than 1000"),
    ):
        with pytest.raises(SandboxError, match=words) as caught:
            await sandbox.read_file(path, limit=1000)
        assert str(caught.value).startswith(path)
    assert await sandbox.read_file("big", limit=1001) == bytes(1001)
    with pytest.raises(SandboxError, match="directory"):
        await sandbox.write_file(".", b"")
    with pytest.raises(SandboxError, match="directory"):
        await sandbox.list_dir("big")


async def test_wrong_requests_are_refused(driver: Driver, sandbox: Sandbox) -> None:
    for wrong in ("", "../up", "a/b", "x" * 65, "sp ace"):
        with pytest.raises(SandboxError, match="letters, digits"):
            await driver.create(SandboxSpec(id=wrong))
        with pytest.raises(SandboxError, match="letters, digits"):
            await sandbox.start(wrong, ["true"])
    with pytest.raises(SandboxError, match="argv"):
        await sandbox.start("c", [])
    with pytest.raises(SandboxError):
        await sandbox.start("c", ["echo", "a\0b"])
    with pytest.raises(SandboxError, match="no such command"):
        await sandbox.follow("absent")
    with pytest.raises(SandboxError):
        await sandbox.save_output("absent", "stdout", "x")
    assert await sandbox.state("c") == "unknown"


async def test_create_is_idempotent(driver: Driver, sandbox: Sandbox) -> None:
    await sandbox.start("c", ["true"])
    again = await driver.create(SandboxSpec(id="one", limits=SMALL))
    assert await again.start("c", ["true"]) == "exists"
    adopted = await driver.adopt("one")
    assert adopted is not None and adopted.id == "one"
    assert await driver.adopt("absent") is None


async def test_destroy(driver: Driver, sandbox: Sandbox) -> None:
    await sh(sandbox, "mkdir -p deep/er; echo x > deep/er/f; chmod 000 deep/er deep; ln -s / root; mkfifo fifo")
    await sandbox.start("c", ["sleep", "600"])
    assert [name async for name in driver.list()] == ["one"]
    await driver.destroy("one")
    assert [name async for name in driver.list()] == []
    assert await driver.adopt("one") is None and driver.workspace("one") is None
    await driver.destroy("one")


async def test_destroy_can_leave_the_files(driver: Driver, sandbox: Sandbox) -> None:
    await sandbox.write_file("kept", b"work")
    await run(sandbox, "true")
    await driver.destroy("one", keep_files=True)
    assert await driver.adopt("one") is None
    workspace = driver.workspace("one")
    assert workspace is not None
    assert await anyio.Path(workspace, "kept").read_bytes() == b"work"
    assert [path.name async for path in anyio.Path(workspace).parent.iterdir()] == ["workspace"]
    again = await driver.create(SandboxSpec(id="one", limits=SMALL))
    await sh(again, "echo more >> kept")
    assert await again.read_file("kept") == b"workmore\n"


async def test_a_destroyed_sandbox_is_gone(driver: Driver, sandbox: Sandbox) -> None:
    await sandbox.start("c", ["sleep", "600"])

    async def follow() -> None:
        if driver.name == "bwrap":
            with pytest.raises(SandboxGone):
                await sandbox.follow("c")
        else:
            assert (await sandbox.follow("c")).signal == 9

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await driver.destroy("one")


async def test_a_cancelled_follower_leaves_the_command(sandbox: Sandbox) -> None:
    await sandbox.start("c", ["sh", "-c", "echo up; while ! [ -e go ]; do sleep 0.02; done; exit 7"])
    await _printed(sandbox, "c", b"up")
    assert await sandbox.state("c") == "running"
    await sandbox.write_file("go", b"")

    async def over() -> bool:
        return await sandbox.state("c") == "exited"

    await until(over)
    assert (await sandbox.follow("c")).exit_code == 7
