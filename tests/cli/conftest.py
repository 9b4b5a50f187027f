"""Fixtures: the command line alone, and beside a real server with a scripted model."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program import Corral


@pytest.fixture
def corral(tmp_path: Path) -> Iterator[Corral]:
    """Without a server."""
    corral = Corral(tmp_path)
    yield corral
    corral.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corral]:
    """Beside a `corral up` with the same home, one for all tests."""
    corral = Corral(tmp_path_factory.mktemp("up"))
    up = corral.start("up", "--port", "0", "--model", "scripted/default")
    try:
        up.says("Corral serves")
        yield corral
    finally:
        code, _, err = up.end(signal.SIGTERM)
    assert code == 0, err
    assert "Traceback" not in err
    assert not (corral.home / "corral" / "server.json").exists()
