"""The program inside: what is shipped is what the sources give, and no frame on its socket upsets it."""

import hashlib
import importlib.util
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from corral.sandboxes import DriverSettings, SandboxError, SandboxSpec, guest
from corral.sandboxes.drivers import bwrap
from corral.sandboxes.processes import start_time
from corral.sandboxes.records import Place
from sandboxes.boxes import SMALL, run

SOURCES = Path(guest.__file__).parent
TREE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hatch_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", TREE / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree without binaries."""
    target = tmp_path / "src/corral/sandboxes/guest"
    target.mkdir(parents=True)
    for path in [*SOURCES.glob("*.c"), *SOURCES.glob("*.h")]:
        shutil.copy(path, target)
    return tmp_path


def test_the_shipped_binaries_are_of_these_sources(hatch_build: ModuleType) -> None:
    record = json.loads((SOURCES / "bin/sbx.sha256").read_text())
    sources = [*sorted(SOURCES.glob("*.c")), *sorted(SOURCES.glob("*.h")), TREE / "hatch_build.py"]
    assert record["sources"] == hatch_build.digest(*sources), "run `python hatch_build.py`"
    for machine, sha256 in record["binaries"].items():
        data = (SOURCES / f"bin/sbx-{machine}").read_bytes()
        assert hashlib.sha256(data).hexdigest() == sha256
        assert struct.unpack_from("<H", data, 18) == ({"x86_64": 62, "aarch64": 183}[machine],)
        assert len(data) < 200_000


async def test_a_binary_of_the_host_compiler_serves_too(
    tree: Path, hatch_build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hatch_build, "find_spec", lambda name: None)
    said: list[str] = []
    files = hatch_build.build(tree, said.append)
    assert len(files) == 2 and len(said) == 1 and "ziglang" in said[0]
    before = files[1].stat().st_mtime_ns
    real = guest.load
    monkeypatch.setattr(guest, "load", lambda: real(files[0].parent))
    with anyio.fail_after(60):
        driver = bwrap.create_driver(DriverSettings(directory=str(tree / "home")))
        box = await driver.create(SandboxSpec(id="box", limits=SMALL))
        try:
            assert (await run(box, "echo", "built")).stdout.head == b"built\n"
        finally:
            await driver.destroy("box")
    assert files[1].stat().st_mtime_ns == before


def test_no_compiler_at_all(tree: Path, hatch_build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hatch_build, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="install ziglang"):
        hatch_build.build(tree, lambda text: None)


def test_a_changed_binary_is_not_used(tmp_path: Path) -> None:
    shutil.copytree(SOURCES / "bin", tmp_path / "bin")
    assert guest.load(tmp_path / "bin").data == guest.load().data
    with open(guest.load(tmp_path / "bin").path, "ab") as file:
        file.write(b"\0")
    with pytest.raises(SandboxError, match="SHA-256"):
        guest.load(tmp_path / "bin")
    with pytest.raises(SandboxError, match="riscv64 is not installed"):
        guest.load(machine="riscv64")


def test_it_serves_only_as_pid_1_of_a_sandbox() -> None:
    program = str(guest.load().path)
    env = {"SBX_CONTROL": "3", "SBX_SPOOL": "4", "SBX_HOST_NS": ""}
    done = subprocess.run([program, "init"], env=env, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (112, "sbx init: refused to serve: not PID 1 of a pid namespace\n")
    done = subprocess.run([program], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (2, "usage: sbx boot|init\n")


OPERATIONS = [b"start", b"attach", b"kill", b"open", b"state", b"ping", b"", b"unknown"]
KEYS = [
    b"id=",
    b"arg=",
    b"env=",
    b"cwd=",
    b"path=",
    b"flags=",
    b"mode=",
    b"mkdirs=",
    b"timeout_ms=",
    b"grace_ms=",
    b"id",
]
VALUES = [
    b"1",
    b"-1",
    b"a",
    b"../x",
    b"/tmp",
    b"/",
    b"r",
    b"d",
    b"w",
    b"99999999999999999999",
    b"true",
    b"/proc/self/mem",
]


def frames(rng: random.Random) -> bytes:
    """Some frames, most of them nearly right."""
    out = b""
    for _ in range(rng.randint(1, 6)):
        pairs = b"".join(
            rng.choice(KEYS) + rng.choice([*VALUES, rng.randbytes(rng.randint(0, 300))]) + b"\0" * rng.randint(0, 2)
            for _ in range(rng.randint(0, 8))
        )
        body = rng.choice([b"Q"] * 8 + [b"x", b"\0"]) + rng.choice(OPERATIONS) + b"\0" * rng.randint(0, 1) + pairs
        size = len(body) if rng.random() < 0.9 else rng.choice([0, 1, len(body) + 1, 1 << 20, 1 << 31, (1 << 32) - 1])
        out += struct.pack("<I", size) + body
    return out


async def test_malformed_frames(tmp_path: Path) -> None:
    driver = bwrap.create_driver(DriverSettings(directory=str(tmp_path)))
    box = await driver.create(SandboxSpec(id="box", limits=SMALL))
    try:
        record = Place(tmp_path, "box").load()
        assert record is not None
        rng = random.Random(1)
        descriptor = os.open(tmp_path / "box", os.O_PATH)
        for _ in range(3000):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(0.001)
                connection.connect(f"/proc/self/fd/{descriptor}/control.sock")
                try:
                    connection.sendall(frames(rng))
                    if rng.random() < 0.2:
                        connection.recv(100)
                except OSError:
                    continue
        os.close(descriptor)
        assert start_time(record.pid) == record.started
        assert (await run(box, "echo", "still here")).stdout.head == b"still here\n"
    finally:
        await driver.destroy("box")


def test_the_build_tool_makes_an_equal_record(hatch_build: ModuleType) -> None:
    """An unchanged tree is not compiled again."""
    before = (SOURCES / "bin/sbx.sha256").stat().st_mtime_ns
    done = subprocess.run([sys.executable, TREE / "hatch_build.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (SOURCES / "bin/sbx.sha256").stat().st_mtime_ns == before
