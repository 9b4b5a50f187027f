"""Fetching weights: from the official address, from a package index, by hand, interrupted, at once, and refused."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import anyio
import pytest

from corral.gateway.local import pins, transfer, weights, wheels
from corral.gateway.local.pins import Model, Wheel

DATA = bytes(range(256)) * 4096  # 1 MiB
NOWHERE = "http://127.0.0.1:9/none"  # the discard port: nothing listens


@dataclass
class Site:
    """A web server with files; `cut` ends that many answers half way, and `asked` records (path, Range)."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    cut: int = 0

    def paths(self, end: str) -> list[str]:
        return [path for path, _ in self.asked if path.endswith(end)]


@pytest.fixture
def site():
    state = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            body = state.files.get(self.path)
            if body is None:
                return self.send_error(404)
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
            body = body[start:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cut:
                state.cut -= 1
                body = body[: len(body) // 2]
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


def model_of(data: bytes = DATA, url: str = NOWHERE, parts: tuple[Wheel, ...] = ()) -> Model:
    return Model("tiny", "Tiny", len(data), hashlib.sha256(data).hexdigest(), url, parts, memory=1)


def make_wheel(path: Path, project: str, data: bytes) -> None:
    """A real wheel with one data file and a module that must never run."""
    module, info = project.replace("-", "_"), f"{project.replace('-', '_')}-1.0.dist-info"
    members = {
        f"{module}/__init__.py": b"raise SystemExit('this was imported')\n",
        f"{module}/data/{module}.bin": data,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_urlsafe(body)},{len(body)}" for name, body in members.items()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


def _urlsafe(body: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()


@pytest.fixture
def index(site, tmp_path, monkeypatch):
    """A package index with DATA in three wheels; returns the model that is pinned to them."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{site.address}/simple")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    third = len(DATA) // 3 + 1
    parts = []
    for number in range(3):
        project = f"tiny-weights-part{number + 1}"
        wheel = Wheel(project, "1.0", "")
        make_wheel(tmp_path / wheel.filename, project, DATA[number * third : (number + 1) * third])
        body = (tmp_path / wheel.filename).read_bytes()
        site.files[f"/files/{wheel.filename}"] = body
        site.files[f"/simple/{project}/"] = f'<a href="/files/{wheel.filename}">{wheel.filename}</a>'.encode()
        parts.append(replace(wheel, sha256=hashlib.sha256(body).hexdigest()))
    return model_of(parts=tuple(parts))


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


async def test_official_address(site, home):
    site.files["/tiny.gguf"] = DATA
    seen = []
    path = await weights.pull(model_of(url=f"{site.address}/tiny.gguf"), home, lambda *step: seen.append(step))
    assert path.read_bytes() == DATA
    assert seen[0] == ("download", 0, len(DATA), "127.0.0.1")
    assert ("download", len(DATA), len(DATA), "127.0.0.1") in seen
    assert seen[-1][:2] == ("verify", len(DATA))
    assert {p.name for p in path.parent.iterdir()} == {"tiny.gguf", "tiny.ok", "tiny.lock"}


async def test_what_is_there_is_not_fetched_again(site, home):
    site.files["/tiny.gguf"] = DATA
    model = model_of(url=f"{site.address}/tiny.gguf")
    await weights.pull(model, home)
    assert weights.ready(model, home) == await weights.pull(model, home)
    assert len(site.asked) == 1


async def test_a_changed_file_is_not_trusted(site, home):
    site.files["/tiny.gguf"] = DATA
    model = model_of(url=f"{site.address}/tiny.gguf")
    path = await weights.pull(model, home)
    path.write_bytes(b"x" * len(DATA))
    assert weights.ready(model, home) is None
    assert (await weights.pull(model, home)).read_bytes() == DATA


async def test_a_broken_transfer_is_resumed(site, home):
    site.files["/tiny.gguf"] = DATA
    site.cut = 2
    path = await weights.pull(model_of(url=f"{site.address}/tiny.gguf"), home)
    assert path.read_bytes() == DATA
    starts = [wanted for _, wanted in site.asked]
    assert starts == [None, f"bytes={len(DATA) // 2}-", f"bytes={len(DATA) * 3 // 4}-"]


async def test_a_cancelled_pull_is_resumed_by_the_next(site, home):
    site.files["/tiny.gguf"] = DATA
    site.cut = 1
    model = model_of(url=f"{site.address}/tiny.gguf")
    with anyio.CancelScope() as scope:
        await weights.pull(model, home, lambda stage, done, *_: scope.cancel() if done else None)
    assert scope.cancelled_caught
    left = (home / "models" / "tiny.gguf.part").stat().st_size
    assert 0 < left < len(DATA)
    assert weights.ready(model, home) is None
    assert (await weights.pull(model, home)).read_bytes() == DATA
    assert site.asked[-1][1] == f"bytes={left}-"


async def test_a_file_put_there_by_hand_is_verified(home):
    path = weights.path_of(model_of(), home)
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    assert await weights.pull(model_of(), home) == path
    assert weights.ready(model_of(), home) == path


async def test_another_digest_is_refused_and_deleted(site, home):
    site.files["/tiny.gguf"] = DATA[::-1]
    with pytest.raises(transfer.WeightsUnavailable, match=r"tiny\.gguf has not the pinned SHA-256") as caught:
        await weights.pull(model_of(url=f"{site.address}/tiny.gguf"), home)
    assert "tiny.gguf" in caught.value.fix
    assert [p.name for p in (home / "models").iterdir() if p.is_file()] == ["tiny.lock"]


async def test_more_than_the_pinned_size_is_refused(site, home):
    site.files["/tiny.gguf"] = DATA[::-1] + b"more" * 99_999
    with pytest.raises(transfer.WeightsUnavailable):
        await weights.pull(model_of(url=f"{site.address}/tiny.gguf"), home)
    assert [p.name for p in (home / "models").iterdir() if p.is_file() and p.stat().st_size > len(DATA)] == []


async def test_package_index(site, index, home):
    seen = []
    path = await weights.pull(index, home, lambda *step: seen.append(step))
    assert path.read_bytes() == DATA
    assert [step[0] for step in seen if step[0] != "download"] == ["join"] * 3 + ["verify"] * 2
    assert not list((home / "models").glob("*.pieces"))
    assert len(site.paths(".whl")) == 3


async def test_an_altered_wheel_is_refused(site, index, home):
    name = f"/files/{index.wheels[1].filename}"
    site.files[name] = site.files[name][:-1] + b"!"
    with pytest.raises(transfer.WeightsUnavailable, match="did not get tiny-weights-part2"):
        await weights.pull(index, home)
    assert weights.ready(index, home) is None


async def test_pieces_that_came_are_used_again(site, index, home):
    page = site.files.pop("/simple/tiny-weights-part3/")
    with pytest.raises(transfer.WeightsUnavailable, match=r"127\.0\.0\.1.*did not get tiny-weights-part3"):
        await weights.pull(index, home)
    site.files["/simple/tiny-weights-part3/"] = page
    kept = home / "models" / "tiny.gguf.pieces" / index.wheels[0].filename
    kept.write_bytes(kept.read_bytes()[:-1])  # and one was damaged since
    (kept.parent / ".tmp-left").mkdir()  # and a killed process left its scratch folder
    site.asked.clear()
    assert (await weights.pull(index, home)).read_bytes() == DATA
    assert [Path(path).name for path in site.paths(".whl")] == [index.wheels[0].filename, index.wheels[2].filename]


async def test_wheels_with_another_content_are_refused_and_deleted(index, home):
    wrong = replace(index, sha256="0" * 64)
    with pytest.raises(transfer.WeightsUnavailable, match="package index has not the pinned SHA-256"):
        await weights.pull(wrong, home)
    assert [p.name for p in (home / "models").iterdir()] == ["tiny.lock"]


async def test_a_wheel_that_unpacks_to_too_much_is_refused(index, home):
    with pytest.raises(transfer.WeightsUnavailable, match="hold more than"):
        await weights.pull(replace(index, size=len(DATA) - 1), home)


async def test_uv_where_there_is_no_pip(index, home, tmp_path, monkeypatch):
    """An installer that unpacks into --target, as uv does: the pieces are read from there."""
    program = tmp_path / "uv"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys, zipfile, pathlib\n"
        "argv = sys.argv\n"
        "line = pathlib.Path(argv[argv.index('-r') + 1]).read_text()\n"
        "project, _, rest = line.partition('==')\n"
        f"wheel = pathlib.Path({str(tmp_path)!r}, project.replace('-', '_') + '-1.0-py3-none-any.whl')\n"
        "assert '--require-hashes' in argv and '--hash=sha256:' in rest\n"
        "zipfile.ZipFile(wheel).extractall(argv[argv.index('--target') + 1])\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(wheels.sys, "executable", "/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = await wheels.installer()
    assert tool is not None
    assert tool.name == "uv"
    assert (await weights.pull(index, home)).read_bytes() == DATA


async def test_no_installer_at_all(index, home, monkeypatch, tmp_path):
    monkeypatch.setattr(wheels.sys, "executable", "/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(transfer.WeightsUnavailable, match="neither pip nor uv"):
        await weights.pull(index, home)


async def test_a_full_disk_is_told_before_the_download(site, home, monkeypatch):
    full = shutil.disk_usage(home.parent)._replace(free=10_000_000)
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda _: full)
    with pytest.raises(transfer.WeightsUnavailable, match=r"has 0\.0 GB free and the weights need 0\.1 GB") as caught:
        await weights.pull(model_of(url=f"{site.address}/tiny.gguf"), home)
    assert "CORRAL_HOME" in caught.value.fix
    assert site.asked == []


async def test_two_processes_at_once_fetch_once(site, home):
    site.files["/tiny.gguf"] = DATA
    model = model_of(url=f"{site.address}/tiny.gguf")
    code = (
        "import anyio, sys; from pathlib import Path; from corral.gateway.local import weights;"
        "from corral.gateway.local.pins import Model;"
        f"print(anyio.run(weights.pull, {model!r}, Path({str(home)!r})))"
    )
    results = []

    async def run():
        results.append(await anyio.run_process([sys.executable, "-c", code], stdin=subprocess.DEVNULL))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        tasks.start_soon(run)
    assert {result.stdout.decode().strip() for result in results} == {str(weights.path_of(model, home))}
    assert len(site.asked) == 1


def test_the_pins_are_complete():
    for model, parts in ((pins.SMALL, 6), (pins.LARGE, 22)):
        assert len(model.wheels) == parts
        digests = {model.sha256, *(wheel.sha256 for wheel in model.wheels)}
        assert len(digests) == parts + 1
        assert all(len(digest) == 64 and int(digest, 16) for digest in digests)
        assert model.url.startswith("https://")
    assert weights.find("small") is weights.find("qwen2.5-coder-0.5b") is pins.SMALL
    with pytest.raises(LookupError, match=r"'huge' is not one of small, large, qwen2\.5-coder-0\.5b"):
        weights.find("huge")


@pytest.mark.parametrize(
    ("cores", "memory", "disk", "chosen"),
    [
        (8, 16, 50, "qwen2.5-coder-1.5b"),
        (2, 16, 50, "qwen2.5-coder-0.5b"),
        (8, 3.5, 50, "qwen2.5-coder-0.5b"),
        (8, 16, 2, "qwen2.5-coder-0.5b"),
    ],
)
def test_the_choice_for_a_machine(home, monkeypatch, cores, memory, disk, chosen):
    usage = shutil.disk_usage(home.parent)._replace(free=int(disk * 1e9))
    monkeypatch.setattr(weights.os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(weights, "_memory", lambda: int(memory * (1 << 30)))
    monkeypatch.setattr(weights.shutil, "disk_usage", lambda _: usage)
    assert weights.choose(home, {}) == chosen
    assert weights.choose(home, {"CORRAL_LOCAL_MODEL": "large"}) == "qwen2.5-coder-1.5b"
    assert weights.choose(home, {"CORRAL_LOCAL_MODEL": "/data/own.gguf"}) == "/data/own.gguf"
