"""Which server is found, and what is said when none is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.sdk import _find, contexts
from corral.sdk.errors import NotConfigured, UsageError


@pytest.fixture
def home(bare: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    bare.setenv("CORRAL_HOME", str(tmp_path))
    return tmp_path


def record(home: Path, pid: int) -> None:
    server = {"url": "http://127.0.0.1:1", "key": "local-key", "pid": pid}
    (home / "server.json").write_text(json.dumps(server), encoding="utf-8")


def test_the_order(home: Path, bare: pytest.MonkeyPatch) -> None:
    record(home, os.getpid())
    assert _find.server() == ("http://127.0.0.1:1", "local-key")
    bare.setenv("NODUS_API_URL", "http://nodus")
    bare.setenv("NODUS_API_KEY", "n")
    assert _find.server() == ("http://nodus", "n")
    bare.setenv("CORRAL_URL", "http://corral")
    bare.setenv("CORRAL_KEY", "c")
    assert _find.server() == ("http://corral", "c")
    assert _find.server("http://mine", "m") == ("http://mine", "m")


def test_a_login_is_found_after_the_environment_and_before_the_local_server(
    home: Path, bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    record(home, os.getpid())
    contexts.add("work", contexts.Context("http://work", project="lab"), "work-key")
    assert (_find.server(), _find.project()) == (("http://work", "work-key"), "lab")
    contexts.add("home", contexts.Context("http://home"), "home-key")
    assert (_find.server(), _find.project()) == (("http://home", "home-key"), "default")
    bare.setenv("NODUS_API_URL", "http://nodus")
    bare.setenv("NODUS_API_KEY", "n")
    assert (_find.server(), _find.project()) == (("http://nodus", "n"), "default")
    bare.setenv("CORRAL_CONTEXT", "work")
    assert (_find.server(), _find.project()) == (("http://work", "work-key"), "lab")
    bare.setenv("CORRAL_CONTEXT", "none")
    with pytest.raises(UsageError, match="no context 'none'"):
        _find.server()
    bare.setenv("CORRAL_CONTEXT", contexts.LOCAL)
    assert _find.server().key == "local-key"


def test_a_key_goes_to_no_other_server(home: Path, bare: pytest.MonkeyPatch) -> None:
    bare.setenv("NODUS_API_KEY", "n")
    with pytest.raises(NotConfigured, match=r"NODUS_API_KEY is set, but its address is not") as caught:
        _find.server()
    assert "corral up" in caught.value.fix
    record(home, os.getpid())
    assert _find.server().key == "local-key"
    bare.setenv("CORRAL_URL", "http://corral")
    with pytest.raises(UsageError, match="CORRAL_URL is given without CORRAL_KEY"):
        _find.server()


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("ftp://x", "k", "url is 'ftp://x'"),
        ("http://x", None, "url is given without key"),
        (None, "k", "key is given without url"),
    ],
)
def test_half_of_an_answer(url: str | None, key: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _find.server(url, key)


def test_a_server_that_has_ended_is_no_server(home: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    record(home, ended.pid)
    with pytest.raises(NotConfigured, match="none runs with the home"):
        _find.server()
    (home / "server.json").write_text("[]", encoding="utf-8")
    with pytest.raises(NotConfigured):
        _find.server()


def test_the_project(bare: pytest.MonkeyPatch) -> None:
    assert _find.project() == "default"
    bare.setenv("NODUS_PROJECT", "n")
    assert _find.project() == "n"
    bare.setenv("CORRAL_PROJECT", "c")
    assert (_find.project(), _find.project("mine")) == ("c", "mine")
