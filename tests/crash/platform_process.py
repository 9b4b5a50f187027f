"""A Corral server as a process group of its own, which tests kill and start again on the same state."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2

BOUND = 60.0
"""Seconds that anything may take; reached only when something is wrong."""
PROJECT = "/apis/nodus.dev/v1/namespaces/default"
T = TypeVar("T")


def until(condition: Callable[[], T], what: str) -> T:
    """The first true value of the condition, asked again and again until the bound."""
    end = time.monotonic() + BOUND
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} did not happen in {BOUND} s"
        time.sleep(0.02)
    return value


@dataclass
class Platform:
    """`corral up` on a home, with the model service at `model_url`."""

    home: Path
    model_url: str
    database: str = ""
    process: subprocess.Popen[bytes] | None = None
    client: httpx2.Client | None = None
    log: list[Path] = field(default_factory=list)

    def start(self) -> "Platform":
        """Start it and wait until it answers."""
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH", "LANG") if name in os.environ}
        env = keep | {
            "CORRAL_HOME": str(self.home),
            "ANTHROPIC_API_KEY": "sk-canary-0123456789",
            "ANTHROPIC_BASE_URL": self.model_url,
        }
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.home / "server.json").unlink(missing_ok=True)
        self.log.append(self.home / f"up-{len(self.log)}.log")
        command = [sys.executable, "-W", "error", "-c", "from corral.cli.main import main; main()", "up", "--port", "0"]
        if self.database:
            command += ["--database", self.database]
        with self.log[-1].open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
            )
        known = until(self._server_file, f"the start of the server ({self.log[-1].read_text()})")
        self.client = httpx2.Client(
            base_url=known["url"], headers={"Authorization": f"Bearer {known['key']}"}, trust_env=False, timeout=BOUND
        )
        until(lambda: self.api("GET", "/readyz").status_code == 200, "an answer of the server")
        return self

    def _server_file(self) -> dict[str, Any] | None:
        assert self.process is not None
        assert self.process.poll() is None, self.log[-1].read_text()
        try:
            known: dict[str, Any] = json.loads((self.home / "server.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return known if known["pid"] == self.process.pid else None

    def api(self, method: str, path: str, **options: Any) -> httpx2.Response:
        assert self.client is not None
        return self.client.request(method, path, **options)

    def kill(self) -> None:
        """SIGKILL of the whole process group: no line of ours runs after it."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, sig: int) -> int:
        assert self.process is not None
        assert self.client is not None
        os.killpg(self.process.pid, sig)
        code = self.process.wait(BOUND)
        self.client.close()
        return code

    def create(self, prompt: str, **spec: Any) -> str:
        """A run of the agent `worker`, which is made if need be: the run's name."""
        agent = {"kind": "Agent", "metadata": {"name": "worker"}, "spec": {"maxTokens": 1000}}
        assert self.api("POST", f"{PROJECT}/agents", json=agent).status_code in (200, 201)
        run = {
            "kind": "AgentRun",
            "metadata": {"generateName": "run-"},
            "spec": {"agent": "worker", "input": prompt, **spec},
        }
        answer = self.api("POST", f"{PROJECT}/agentruns", json=run)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["metadata"]["name"])

    def run(self, name: str) -> dict[str, Any]:
        answer = self.api("GET", f"{PROJECT}/agentruns/{name}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def phase(self, name: str, *phases: str) -> dict[str, Any]:
        """Wait for one of the phases: the run's status."""

        def reached() -> dict[str, Any] | None:
            status: dict[str, Any] = self.run(name)["status"]
            return status if status["phase"] in phases else None

        return until(reached, f"{name} in {phases}")

    def steps(self, name: str) -> list[dict[str, Any]]:
        return list(self.api("GET", f"{PROJECT}/agentruns/{name}/steps").json()["items"])

    def step(self, name: str, key: str, outcome: str) -> dict[str, Any]:
        """Wait for a step to have the outcome."""

        def reached() -> dict[str, Any] | None:
            return next((s for s in self.steps(name) if s["key"] == key and s["outcome"] == outcome), None)

        return until(reached, f"step {key} {outcome}")

    def sandboxes(self) -> list[str]:
        directory = self.home / "sandboxes"
        return [p.name for p in directory.iterdir() if not p.name.startswith(".")] if directory.is_dir() else []


@contextmanager
def platform(home: Path, model_url: str, database: str = "") -> Iterator[Platform]:
    """A started platform, ended whatever happens, with no sandbox left behind."""
    running = Platform(home, model_url, database).start()
    try:
        yield running
    finally:
        if running.process is not None and running.process.poll() is None:
            running.kill()
