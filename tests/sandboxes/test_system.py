"""The copy of /etc has what programs need, and nothing that not everybody may read."""

from pathlib import Path

import pytest

from corral.sandboxes import Limits, limits, system
from corral.sandboxes.removal import remove_tree


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    source = tmp_path / "etc"
    (source / "ssl/private").mkdir(parents=True)
    (source / "ssl/private").chmod(0o700)
    (source / "ssl/private/key").write_text("secret")
    (source / "ssl/cert.pem").write_text("certificate")
    (source / "ssl/closed").write_text("secret")
    (source / "ssl/closed").chmod(0o640)
    (source / "python3.11").mkdir()
    (source / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    for name in ("shadow", "pip.conf", "passwd", "machine-id"):
        (source / name).write_text("of the host")
    return source


def test_copy(tmp_path: Path, etc: Path) -> None:
    copy = system.copy_etc(tmp_path / "copies", etc)
    found = {str(path.relative_to(copy)) for path in copy.rglob("*")}
    generated = {"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf"}
    assert found == generated | {"ssl", "ssl/cert.pem", "python3.11", "localtime"}
    assert "agent:x:1000" in (copy / "passwd").read_text()
    assert str((copy / "localtime").readlink()) == "/usr/share/zoneinfo/UTC"
    assert (copy / "ssl/cert.pem").stat().st_mode & 0o777 == 0o444


def test_a_copy_is_made_once_for_each_content(tmp_path: Path, etc: Path) -> None:
    first = system.copy_etc(tmp_path / "copies", etc)
    made = first.stat().st_ctime_ns
    assert system.copy_etc(tmp_path / "copies", etc) == first and first.stat().st_ctime_ns == made
    (etc / "ssl/cert.pem").write_text("renewed")
    second = system.copy_etc(tmp_path / "copies", etc)
    assert second != first and (first / "ssl/cert.pem").read_text() == "certificate"
    assert len(list((tmp_path / "copies").iterdir())) == 2


def test_memory_file_systems_leave_half_of_the_memory() -> None:
    roomy = limits.fitted(Limits(memory=4 << 30))
    assert roomy["/tmp"] == 256 << 20 and roomy["/dev/shm"] == 64 << 20
    tight = limits.fitted(Limits(memory=64 << 20))
    assert sum(tight.values()) <= 32 << 20 and all(size >= 4096 for size in tight.values())


def test_removal(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("stays")
    tree = tmp_path / "tree"
    (tree / "a/b/c").mkdir(parents=True)
    (tree / "a/b/c/file").touch()
    (tree / "a/link").symlink_to(tmp_path / "outside")
    (tree / "wide").mkdir()
    for number in range(50):
        (tree / f"wide/{number}/x").mkdir(parents=True)
    for path in (tree / "a/b/c", tree / "a/b", tree / "a"):
        path.chmod(0)
    remove_tree(tree)
    remove_tree(tree)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside/file").read_text() == "stays"
