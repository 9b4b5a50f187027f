"""The public clients `nodus` (command line) and `import nodus` (SDK), unmodified, against our server.

The drivers beside this file print a line for each case. Every case passes except those listed here, by what they need
that Corral does not have yet; a listed case that passes fails the test too, so the lists stay exact.
"""

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CLIENT = "nodus-compute==1.0.32"
BOUND = 900
"""Seconds for one driver; reached only when something is wrong."""

CLI_NEEDS = {
    "groups": {
        "discovery.api_resources",
        "docs.explain_short_recursive",
        "group.apply_group",
        "group.apply_runs_multidoc",
        "group.table",
        "group.seal",
        "group.sealed_refuses",
        "group.wait",
        "group.table_done",
        "group.runs_by_field",
        "group.answer",
        "group.counts",
        "group.cost",
        "group.c_after_a_and_b",
        "group.patch_max_active",
        "group.create_without_file",
        "group.cap_raise",
        "group.nameless_run",
        "group.nameless_run_named",
        "group.delete_removes_runs",
        "group.delete",
        "group.empty_sealed_succeeds",
        "group.cap_too_small_blocks",
        "group.cap_raised_releases",
        "group.dependency_wait",
        "group.cancel",
        "group.cancelled",
        "group.members_cancelled",
    },
    "sandboxes": {
        "discovery.has_sandboxes",
        "discovery.has_processes",
        "sandbox.create",
        "sandbox.exec_waits_for_start",
        "sandbox.exit_code",
        "sandbox.stdin",
        "sandbox.big_output",
        "sandbox.big_stdin",
        "sandbox.cp_up",
        "sandbox.cp_up_visible",
        "sandbox.cp_down",
        "sandbox.cp_down_same",
        "sandbox.cp_dir_up",
        "sandbox.cp_dir_down",
        "sandbox.cp_dir_same",
        "sandbox.cp_big",
        "sandbox.cp_missing",
        "sandbox.processes",
        "sandbox.attach_by_number",
        "sandbox.cancel_process",
        "sandbox.logs",
        "sandbox.logs_process",
        "sandbox.tty",
        "sandbox.shell_creates",
        "sandbox.portforward",
        "sandbox.open_port",
        "sandbox.stop",
        "sandbox.stopped_phase",
        "sandbox.exec_wakes_and_keeps_workspace",
        "sandbox.request_refresh",
        "sandbox.describe",
        "sandbox.delete",
    },
    "budgets": {
        "discovery.has_budgets",
        "budget.create",
        "budget.apply",
        "budget.get",
        "budget.status",
        "budget.describe",
    },
    "mcp": {
        "mcp.write_tools",
        "mcp.sandbox_tools",
    },
}
SDK_NEEDS = {
    "groups": {
        "api.discovery",
        "api.table",
        "guide0.parallel_agents_example",
        "guide0.parallel_agents_example_again",
        "guide0.cycle_and_repeat_raise_invalid",
        "group.batch_is_all_or_nothing",
        "group.large_batch_splits",
        "group.closed_after_seal",
        "group.max_pending",
        "group.failure_and_cancel",
        "map.unordered_and_exceptions",
    },
    "evaluation": {
        "guide1.evaluation_example",
        "guide1.evaluation_without_environment_rejected",
    },
    "sandboxes": {
        "sandbox.create_is_by_name",
        "sandbox.exec_exit_and_streams",
        "sandbox.exec_env_workdir_secret",
        "sandbox.exec_streams_while_running",
        "sandbox.stdin",
        "sandbox.large_output",
        "sandbox.signal_and_cancel",
        "sandbox.exec_timeout",
        "sandbox.attach_tty",
        "sandbox.files",
        "sandbox.logs",
        "sandbox.stop_and_wake",
        "sandbox.terminate",
    },
}


@dataclass(frozen=True)
class Server:
    """A server as a process, with the scripted model."""

    url: str
    key: str
    pid: int


@pytest.fixture(scope="module")
def client() -> Path:
    """The `bin` of an environment that holds the public client and nothing of ours."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "corral-test" / CLIENT
    if not (cache / "bin" / "nodus").exists():
        venv.create(cache, with_pip=True, clear=True)
        subprocess.run([cache / "bin" / "pip", "install", "--quiet", CLIENT], check=True, timeout=BOUND)
    return cache / "bin"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("conformance")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    started = subprocess.run(
        [HERE / "serve", "--background", home],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    values = dict(part.split("=", 1) for part in started.stdout.split())
    running = Server(values["URL"], values["KEY"], int(values["PID"]))
    try:
        yield running
    finally:
        os.kill(running.pid, 15)


def drive(command: list[str | Path], server: Server, **more: str) -> tuple[set[str], dict[str, str]]:
    """Run a driver: the cases that passed, and those that failed with why."""
    environment = os.environ | {"NODUS_API_KEY": server.key} | more
    done = subprocess.run(
        [*command, server.url], capture_output=True, text=True, timeout=BOUND, env=environment, check=False
    )
    assert "SUMMARY" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    passed = set(re.findall(r"^PASS (\S+)", done.stdout, re.M))
    failed = dict(re.findall(r"^(?:FAIL|SKIP) (\S+?)(?::|$)(.*)", done.stdout, re.M))
    return passed, failed


def check(passed: set[str], failed: Mapping[str, str], needs: Mapping[str, set[str]], at_least: int) -> None:
    listed = set().union(*needs.values())
    unexpected = {name: why for name, why in failed.items() if name not in listed}
    assert not unexpected, unexpected
    assert not listed & passed, f"these pass now and must leave the list: {sorted(listed & passed)}"
    assert not listed - set(failed), f"these are no cases: {sorted(listed - set(failed))}"
    assert len(passed) >= at_least


def test_the_command_line(client: Path, server: Server) -> None:
    approve = f"{sys.executable} {HERE / 'approve.py'}"
    passed, failed = drive(
        ["bash", HERE / "drive_cli.sh"],
        server,
        NODUS_BIN=str(client / "nodus"),
        DRIVE_WAIT="20s",
        DRIVE_BROWSER_APPROVE=f'{approve} "$URL" {server.key}',
        DRIVE_DEVICE_APPROVE=f"{approve} $BASE/device {server.key} $USER_CODE",
    )
    check(passed, failed, CLI_NEEDS, 130)


def test_the_sdk(client: Path, server: Server) -> None:
    passed, failed = drive([client / "python", HERE / "drive_sdk.py"], server, DRIVE_WAIT="20", DRIVE_SLOW="1")
    check(passed, failed, SDK_NEEDS, 40)
