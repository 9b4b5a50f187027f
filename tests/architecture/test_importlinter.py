"""The import contracts hold, and they would notice: planted violations are found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=root,
        env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(
        ROOT / "src" / "corral", root / "src" / "corral", ignore=shutil.ignore_patterns("__pycache__", "bin")
    )
    shutil.copy(ROOT / ".importlinter", root)
    return root


def test_contracts_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("kinds/agent.py", "from corral.store import schema", "Higher may import lower"),
        ("kinds/agent.py", "import sqlite3", "Kinds do no I/O"),
        (
            "durable/execution.py",
            "from corral.kinds import scheme\nfrom corral.agents import turn",
            "Higher may import lower",
        ),
        (
            "sandboxes/drivers/process.py",
            "from corral.sandboxes.drivers import bwrap",
            "One driver never imports another",
        ),
        ("cli/verbs/get.py", "from corral.cli.verbs import wait", "One CLI verb never imports another"),
        ("cli/verbs/get.py", "from corral import serve", "The CLI and the SDK talk to a server"),
        ("sdk/client.py", "def f():\n    from corral.store import schema", "The CLI and the SDK talk to a server"),
        ("agents/turn.py", "from corral.gateway.providers import openai", "Only serve chooses"),
        ("verbs/objects.py", "from corral.store import sqlite", "Only serve chooses"),
        ("utils/__init__.py", '"""A drawer."""', "Higher may import lower"),
    ],
)
def test_violations_are_found(copy: Path, file: str, line: str, contract: str) -> None:
    path = copy / "src" / "corral" / file
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    try:
        done = lint(copy)
        assert done.returncode != 0, done.stdout
        assert contract in done.stdout.partition("Broken contracts")[2], done.stdout
    finally:
        if before is None:
            shutil.rmtree(path.parent)
        else:
            path.write_text(before, encoding="utf-8")
