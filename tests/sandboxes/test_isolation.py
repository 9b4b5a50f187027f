"""What hostile commands in a bwrap sandbox try, and do not get."""

import os
import socket
from pathlib import Path

import anyio
import pytest

from corral.sandboxes import Driver, Limits, Sandbox, SandboxError, SandboxSpec
from corral.sandboxes.processes import start_time
from corral.sandboxes.records import Place
from corral.sandboxes.system import TOP
from sandboxes.boxes import ROOT, SMALL, python, run, sh, until

CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(number, *arguments), ctypes.get_errno()
"""


def pid_of(home: Path, name: str = "box") -> int:
    record = Place(home, name).load()
    assert record is not None
    return record.pid


async def test_the_supervisor_cannot_be_read(box: Sandbox) -> None:
    for name in ("environ", "maps", "mem", "fd/", "cwd/", "root/", "fdinfo/"):
        text = await sh(box, f"cat /proc/1/{name} || ls /proc/1/{name}")
        assert "Permission denied" in text, (name, text)


async def test_the_supervisor_cannot_be_signalled_or_traced(box: Sandbox, home: Path) -> None:
    await sh(box, "for s in 1 2 9 11 15 19; do kill -$s 1; done")
    text = await python(box, CALL + "print(libc.ptrace(16, 1, 0, 0), libc.ptrace(0x4206, 1, 0, 0))")
    assert text.split() == ["-1", "-1"]
    assert (await run(box, "echo", "serves")).stdout.head == b"serves\n"
    assert start_time(pid_of(home)) is not None


async def test_a_command_whose_wrapper_is_killed_is_no_success(box: Sandbox) -> None:
    await box.start("victim", ["sh", "-c", "echo $PPID > wrapper; setsid sleep 4000 & sleep 4001"])

    async def sleeps(count: int) -> bool:
        return (await sh(box, "pgrep -c '^sleep$'")).split()[0] == str(count)

    await until(lambda: sleeps(2))
    await sh(box, "kill -9 $(cat wrapper)")
    with anyio.fail_after(20):
        assert (await box.follow("victim")).exit_code == 137
    await until(lambda: sleeps(0))


async def test_a_command_that_stops_its_wrapper_can_be_ended(box: Sandbox) -> None:
    await box.start("c", ["sh", "-c", "kill -STOP $PPID; exit 3"], timeout=0.5)
    with anyio.fail_after(20):
        assert (await box.follow("c")).exit_code == 3


async def test_the_control_socket_answers_nobody_inside(boxes: Driver, home: Path) -> None:
    """Even where a sandbox gets at the socket's file, which it should not."""
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    link = Place(home, "box").workspace / "control"
    os.link(Place(home, "box").path / "control.sock", link)
    link.chmod(0o777)
    script = """
import socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
s.connect("/workspace/control")
try:
    s.sendall(b"\\x06\\0\\0\\0Qping\\0")
    print(s.recv(100))
except OSError as error:
    print(type(error).__name__)
"""
    assert (await python(box, script)).strip() in ("b''", "ConnectionResetError", "BrokenPipeError")


async def test_kernel_and_mounts_cannot_be_changed(box: Sandbox) -> None:
    for attempt in (
        "echo x > /proc/sys/kernel/core_pattern",
        "echo b > /proc/sysrq-trigger",
        "touch /usr/x",
        "touch /etc/x",
        "touch /x",
        "touch /dev/x",
        "touch /run/x",
        "echo x > /.sbx",
        "mount -t tmpfs none /tmp",
        "umount /tmp",
        "mount -o remount,rw /usr",
        "chroot / true",
        "mknod /tmp/disk b 8 0",
        "mknod /tmp/mem c 1 1",
        "unshare -Ur true",
        "unshare -n true",
        "nsenter -t 1 -m true",
        "chmod 777 /usr /etc",
    ):
        assert (await run(box, "sh", "-c", attempt)).exit_code != 0, attempt


async def test_no_privileges_are_gained(box: Sandbox) -> None:
    text = await sh(box, "cp /bin/sh shell; chmod 6755 shell; ./shell -p -c 'id -u; id -g'")
    assert text.split() == ["1000", "1000"]
    status = await sh(box, "cat /proc/self/status")
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in status
    groups = set((await sh(box, "id -G")).split())
    assert groups == {"1000"} if ROOT else groups <= {"1000", "65534"}


async def test_refused_system_calls(box: Sandbox) -> None:
    if os.uname().machine != "x86_64":
        numbers = {217: 1, 280: 1, 241: 1, 282: 1, 265: 1, 40: 1, 425: 38, 435: 38}
    else:
        numbers = {250: 1, 321: 1, 298: 1, 323: 1, 304: 1, 165: 1, 272: 1, 425: 38, 435: 38}
    new_user = 0x10000000
    script = CALL + f"for n in {list(numbers)}: print(*call(n, {new_user}, 0, 0, 0, 0, 0))"
    assert await python(box, script) == "".join(f"-1 {error}\n" for error in numbers.values())


async def test_calls_of_another_architecture_kill(box: Sandbox) -> None:
    if os.uname().machine == "x86_64":
        x32 = CALL + "call(0x40000000 + 39)"
        assert (await run(box, "python3", "-c", x32)).signal == 31


async def test_terminal_injection_is_refused(box: Sandbox) -> None:
    script = """
import fcntl, os
_, terminal = os.openpty()
for request in (0x5412, 0x541C):
    try:
        fcntl.ioctl(terminal, request, b"x")
        print("injected")
    except OSError as error:
        print(error.errno)
"""
    assert await python(box, script) == "1\n1\n"


async def test_socket_families(box: Sandbox) -> None:
    script = """
import socket
for family in (40, 17, 38, 29, 31, 1, 2, 10, 16):
    try:
        socket.socket(family, socket.SOCK_RAW if family in (16, 17) else socket.SOCK_STREAM)
        print(family, "open")
    except OSError as error:
        print(family, error.errno)
"""
    lines = (await python(box, script)).splitlines()
    assert lines == [*(f"{n} 97" for n in (40, 17, 38, 29, 31)), *(f"{n} open" for n in (1, 2, 10, 16))]


async def test_no_network(box: Sandbox) -> None:
    abstract = f"\0corral-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(abstract)
        unix.listen()
        script = f"""
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {tcp.getsockname()[1]})), (socket.AF_UNIX, {abstract!r}),
                        (socket.AF_INET, ("169.254.169.254", 80)), (socket.AF_INET, ("1.1.1.1", 53))):
    s = socket.socket(family)
    s.settimeout(3)
    print(s.connect_ex(address))
"""
        assert await python(box, script) == "111\n111\n101\n101\n"
    assert len((await sh(box, "cat /proc/net/route")).splitlines()) == 1
    assert set(await _interfaces(box)) <= {"lo", "sit0", "tunl0", "ip6tnl0"}
    assert (await run(box, "getent", "hosts", "example.com", timeout=20)).exit_code != 0


async def _interfaces(box: Sandbox) -> list[str]:
    lines = (await sh(box, "cat /proc/net/dev")).splitlines()[2:]
    return [line.partition(":")[0].strip() for line in lines]


async def test_files_of_the_host_are_not_there(boxes: Driver, home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    await boxes.create(SandboxSpec(id="other", limits=SMALL))
    assert set((await sh(box, "ls /")).split()) <= {
        *TOP,
        "dev",
        "etc",
        "home",
        "proc",
        "run",
        "tmp",
        "var",
        "workspace",
    }
    for path in ("/root", "/opt", "/srv", "/mnt", "/sys", "/var/lib", "/run/docker.sock", home, tmp_path / "secret"):
        assert "No such file" in await sh(box, f"ls -d {path}"), path
    assert (await sh(box, "ls /home /var /run /tmp /workspace")).split() == [
        *("/home:", "agent", "/run:", "secrets", "/tmp:", "/var:", "tmp", "/workspace:")
    ]
    assert "of the host" not in await sh(box, f"cat /proc/*/root{tmp_path}/secret")
    for name in ("shadow", "ssh", "machine-id", "pip.conf", "npmrc", "sudoers"):
        assert "No such file" in await sh(box, f"ls -d /etc/{name}"), name
    assert (await sh(box, "python3 -c 'import ssl, json; print(1)'")) == "1\n"


async def test_sandboxes_do_not_see_each_other(boxes: Driver) -> None:
    one = await boxes.create(SandboxSpec(id="one", limits=SMALL))
    two = await boxes.create(SandboxSpec(id="two", limits=SMALL))
    await one.write_file("mine", b"one")
    await one.start("c", ["sleep", "4000"])
    assert "mine" not in await sh(two, "ls -aR /workspace /tmp /home")
    assert "4000" not in await sh(two, "cat /proc/*/cmdline | tr '\\0' ' '")
    assert "No such process" in await sh(two, "kill -9 $(seq 2 50)")
    assert await one.state("c") == "running"


async def test_as_root_each_sandbox_has_a_uid_of_its_own(boxes: Driver, home: Path) -> None:
    for name in ("one", "two"):
        await boxes.create(SandboxSpec(id=name, limits=SMALL))
    records = [Place(home, name).load() for name in ("one", "two")]
    uids = {record.host_uid for record in records if record}
    assert uids == ({0} if not ROOT else uids - {0}) and len(uids) == (2 if ROOT else 1)
    real = {_real_uid(pid_of(home, name)) for name in ("one", "two")}
    assert real == (uids if ROOT else {os.getuid()})


def _real_uid(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


async def test_secrets(boxes: Driver, home: Path) -> None:
    secret = b"s3cr3t-\0-bytes"
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL, secrets={"TOKEN": secret}))
    assert (await run(box, "cat", "/run/secrets/TOKEN")).stdout.head == secret
    assert await sh(box, "stat -c %a /run/secrets/TOKEN; ls /run/secrets") == "400\nTOKEN\n"
    assert (await run(box, "sh", "-c", "echo x > /run/secrets/TOKEN")).exit_code != 0
    assert (await run(box, "sh", "-c", "chmod 600 /run/secrets/TOKEN")).exit_code != 0
    assert "s3cr3t" not in await sh(box, "env")
    assert _holding(b"s3cr3t", Place(home, "box")) == []
    for name in ("../up", ".hidden", "a/b", ""):
        with pytest.raises(SandboxError, match="secret"):
            await boxes.create(SandboxSpec(id="wrong", secrets={name: b""}))
    assert [name async for name in boxes.list()] == ["box"]


def _holding(text: bytes, place: Place) -> list[Path]:
    """Files of the sandbox on this host (but for the output of commands), and command lines, that hold the text."""
    paths = [path for path in place.path.rglob("*") if path.is_file() and not path.is_relative_to(place.spool)]
    assert paths
    return [path for path in [*paths, *Path("/proc").glob("[0-9]*/cmdline")] if text in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_daemons_die_with_their_command(box: Sandbox) -> None:
    script = """
    (setsid sh -c 'trap "" TERM; sleep 4000 & sleep 4001' &)
    nohup sh -c '(sleep 4002 &)' > /dev/null 2>&1
    touch up; sleep 4003"""
    await box.start("c", ["sh", "-c", script])

    async def sleeps(count: int) -> bool:
        return (await sh(box, "pgrep -c '^sleep$'")).split()[0] == str(count)

    await until(lambda: sleeps(4))
    await box.kill("c", grace=0.2)
    await until(lambda: sleeps(0))
    assert (await box.follow("c")).signal == 15


async def test_fork_bomb(boxes: Driver) -> None:
    limits = Limits(processes=60, tmp=SMALL.tmp, shm=SMALL.shm, memory=SMALL.memory)
    box = await boxes.create(SandboxSpec(id="box", limits=limits))
    bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: os.write(1, b'full')"
    full = anyio.Event()

    async def take(_: str, data: bytes) -> None:
        full.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await box.start("bomb", ["python3", "-c", bomb])
            group.start_soon(lambda: box.follow("bomb", on_output=take))
            await full.wait()
            await box.kill("bomb", grace=0)
    await until(lambda: _usable(box), 60)


async def _usable(box: Sandbox) -> bool:
    result = await run(box, "sh", "-c", "sleep 0 & wait && echo back")
    return result.stdout.head == b"back\n" and not result.stderr.size


async def test_process_limits_are_not_shared(boxes: Driver) -> None:
    limits = Limits(processes=30, tmp=SMALL.tmp, shm=SMALL.shm, memory=SMALL.memory)
    script = "for i in $(seq 20); do sleep 0.2 & done; wait; echo ok"
    for name in ("one", "two", "three"):
        box = await boxes.create(SandboxSpec(id=name, limits=limits))
        await box.start("c", ["sh", "-c", script])
    for name in ("one", "two", "three"):
        adopted = await boxes.adopt(name)
        assert adopted is not None
        assert (await adopted.follow("c")).stdout.head == b"ok\n"


async def test_memory_bomb(boxes: Driver) -> None:
    limits = Limits(memory=128 << 20, tmp=SMALL.tmp, shm=SMALL.shm)
    box = await boxes.create(SandboxSpec(id="box", limits=limits))
    bomb = "import time\nkept = []\nwhile True:\n  kept.append(b'x' * (10 << 20)); time.sleep(0.01)"
    with anyio.fail_after(60):
        assert (await run(box, "python3", "-c", bomb)).signal == 9
    assert (await run(box, "echo", "serves")).stdout.head == b"serves\n"


async def test_sizes_of_memory_file_systems_and_files(boxes: Driver) -> None:
    limits = Limits(tmp=4 << 20, shm=2 << 20, file_size=8 << 20, memory=512 << 20)
    box = await boxes.create(SandboxSpec(id="box", limits=limits))
    for path, size in (("/tmp/x", 4 << 20), ("/dev/shm/x", 2 << 20), ("/workspace/x", 8 << 20)):
        text = await sh(box, f"head -c 20000000 /dev/zero > {path}; stat -c %s {path}; rm {path}")
        assert str(size) in text.split(), (path, text)
    assert (await sh(box, "ulimit -n; ulimit -c")).split() == ["4096", "0"]


async def test_the_file_interface_follows_no_trick(box: Sandbox) -> None:
    await sh(
        box, "ln -s /proc/1/root/etc/hostname root; ln -s /proc/self/fd/4 fd; ln -s / top; ln -s /etc/shadow shadow"
    )
    for path in ("root", "fd", "top/proc/1/environ", "/proc/self/environ", "/proc/1/mem", "/proc/cpuinfo", "shadow"):
        with pytest.raises(SandboxError):
            await box.read_file(path)
    for path in ("/proc/self/mem", "/proc/1/oom_score_adj", "/etc/new", "/usr/bin/new", "/.sbx", "/run/secrets/x"):
        with pytest.raises(SandboxError):
            await box.write_file(path, b"x")
    assert await box.read_file("top/etc/hostname") == b"sandbox\n"


async def test_a_directory_swapped_for_a_link_leads_nowhere(boxes: Driver, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of the host")
    box = await boxes.create(SandboxSpec(id="box", limits=SMALL))
    swap = f"mkdir d; echo mine > d/file; while :; do mv d e; ln -s {tmp_path} d; rm d; mv e d; done"
    await box.start("swap", ["sh", "-c", swap])
    seen = set()
    with anyio.move_on_after(2):
        while True:
            try:
                seen.add(await box.read_file("d/file"))
                await box.write_file("d/file", b"mine\n")
            except SandboxError:
                continue
    assert seen <= {b"mine\n", b""} and b"mine\n" in seen
    assert (tmp_path / "file").read_text() == "of the host"


async def test_more_commands_than_the_supervisor_holds(box: Sandbox) -> None:
    for number in range(300):
        await box.start(f"c{number}", ["sh", "-c", f"echo {number}"])
        await box.follow(f"c{number}")
    assert await box.state("c0") == "exited"
    assert await box.start("c0", ["true"]) == "exists"
    assert (await box.follow("c0")).stdout.head == b"0\n"
    assert await box.save_output("c1", "stdout", "one") == 2


async def test_too_many_commands_at_once(boxes: Driver) -> None:
    limits = Limits(processes=2000, tmp=SMALL.tmp, shm=SMALL.shm, memory=1 << 30)
    box = await boxes.create(SandboxSpec(id="box", limits=limits))
    for number in range(256):
        await box.start(f"c{number}", ["sleep", "4000"])
    with pytest.raises(SandboxError, match="256 commands"):
        await box.start("more", ["true"])
    assert await box.state("more") == "unknown"
    await box.kill("c7", grace=0)

    async def room() -> bool:
        try:
            return await box.start("more", ["true"]) == "started"
        except SandboxError:
            return False

    await until(room)
