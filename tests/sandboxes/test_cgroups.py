"""Limits get into the right files: on this machine's groups where it has some, and on a tree that looks like v2."""

import os
from pathlib import Path

import pytest

from corral.sandboxes import Limits, cgroups

LIMITS = Limits(memory=256 << 20, processes=50, cpus=0.5, tmp=1 << 20, shm=1 << 20)


def v2(root: Path, controllers: str = "cpuset cpu io memory pids", enabled: str = "memory pids cpu") -> Path:
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text(enabled)
    (root / "cgroup.procs").write_text("")
    return root


def test_the_groups_of_this_machine() -> None:
    groups = cgroups.detect()
    if groups is None:
        assert os.geteuid() != 0 or not Path("/sys/fs/cgroup/memory").exists()
        return
    name = f"corral-test-{os.getpid()}"
    groups.create(name, LIMITS)
    try:
        values = {path.name: path.read_text().strip() for group in groups.paths(name) for path in _limit_files(group)}
        assert values.get("pids.max") == "50"
        assert str(256 << 20) in (values.get("memory.limit_in_bytes"), values.get("memory.max"))
        assert values.get("cpu.cfs_quota_us", values.get("cpu.max")) in ("50000", "50000 100000", None)
    finally:
        cgroups.remove(groups.paths(name))
    assert not any(Path(path).exists() for path in groups.paths(name))


def _limit_files(group: str) -> list[Path]:
    names = ("pids.max", "memory.limit_in_bytes", "memory.max", "cpu.cfs_quota_us", "cpu.max")
    return [path for name in names if (path := Path(group, name)).exists()]


def test_version_2(tmp_path: Path) -> None:
    groups = cgroups._v2(v2(tmp_path))
    assert groups is not None and groups.version == 2 and groups.paths("box") == [str(tmp_path / "box")]
    files = ("memory.max", "memory.swap.max", "pids.max", "cpu.max")
    (tmp_path / "box").mkdir()
    for name in files:
        (tmp_path / "box" / name).touch()
    groups.create("box", LIMITS)
    assert [(tmp_path / "box" / name).read_text() for name in files] == [str(256 << 20), "0", "50", "50000 100000"]


def test_version_2_that_was_not_delegated(tmp_path: Path) -> None:
    assert cgroups._v2(v2(tmp_path, controllers="cpu io")) is None


def test_version_2_enables_what_is_missing(tmp_path: Path) -> None:
    root = v2(tmp_path, enabled="memory")
    groups = cgroups._v2(root)
    assert groups is not None
    assert (root / "cgroup.subtree_control").read_text() == "+pids +cpu"


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("0::/user.slice/x.scope\n", {"": "/user.slice/x.scope"}),
        ("3:cpu,cpuacct:/a\n2:memory:/b:c\n0::/\n", {"cpu": "/a", "cpuacct": "/a", "memory": "/b:c", "": "/"}),
    ],
)
def test_own_groups(text: str, groups: dict[str, str]) -> None:
    assert cgroups._own_groups(text) == groups
