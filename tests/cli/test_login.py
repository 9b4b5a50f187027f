"""Logging in and out, and the contexts that it leaves, against a real server and its real pages."""

import json
import re
import stat
from pathlib import Path

import httpx2
import pytest
import yaml

from cli.browser import decide
from cli.program import Corral, Started


@pytest.fixture
def away(server: Corral, tmp_path: Path) -> Corral:
    """A machine that is not the server's: a home of its own."""
    return Corral(tmp_path)


@pytest.fixture
def url(server: Corral) -> str:
    return str(json.loads(server("env", "--json").out)["CORRAL_URL"])


@pytest.fixture
def operator(server: Corral) -> str:
    return server("auth", "token").out.strip()


def address(started: Started) -> str:
    started.says("Log in at ")
    found = re.search(r"Log in at (\S+)", "".join(started.err))
    assert found
    return found[1]


def test_with_a_token(away: Corral, url: str, operator: str) -> None:
    assert "stdin holds no key" in away("login", url, "--with-token", code=2).err
    assert "Error (Unauthorized)" in away("login", url, "--with-token", stdin="wrong\n", code=1).err
    assert not (away.home / ".config").exists()
    done = away("login", url, "--with-token", "--name", "work", stdin=f"{operator}\n")
    assert done.out == f"Logged in to {url} as operator; the context is work\n"
    assert "NAME" in away("get", "projects").out
    config = away.home / ".config" / "corral" / "config.yaml"
    for file in (config, config.parent / "keys" / "work"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700
    assert operator not in config.read_text(encoding="utf-8")
    done = away("logout")
    assert "stays valid" in done.err
    assert not (config.parent / "keys" / "work").exists()
    assert "Error (NoServer)" in away("get", "agents", code=1).err


def test_by_browser(away: Corral, url: str, operator: str) -> None:
    started = away.start("login", url, "--no-browser", "--name", "web")
    page = decide(address(started), operator, "approve")
    assert "You are logged in" in page.text
    code, out, err = started.end()
    assert (code, out.count("the context is web")) == (0, 1), err
    key = away("auth", "token").out.strip()
    assert key != operator
    assert key not in out + err
    assert "User:" in away("whoami").out
    away("logout", "web")
    refused = httpx2.get(f"{url}/auth/whoami", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
    assert refused.status_code == 401


def test_a_browser_that_is_refused_or_lies(away: Corral, url: str, operator: str) -> None:
    started = away.start("login", url, "--no-browser")
    page = address(started)
    port = re.search(r"port=(\d+)", page)
    assert port
    back = f"http://127.0.0.1:{port[1]}"
    forged = httpx2.get(f"{back}/callback?code=evil&state=guess", trust_env=False)
    assert (forged.status_code, "Start again" in forged.text) == (400, True)
    assert httpx2.get(f"{back}/other", trust_env=False).status_code == 404
    assert httpx2.post(f"{back}/callback", trust_env=False).status_code == 404
    assert "was refused" in decide(page, operator, "deny").text
    code, _, err = started.end()
    assert (code, "Error (AccessDenied)" in err) == (1, True)
    assert not (away.home / ".config").exists()


def test_nobody_comes(away: Corral, url: str) -> None:
    done = away("login", url, "--no-browser", "--timeout", "200ms", code=4)
    assert "Error (TimedOut): nobody approved the login in time" in done.err


def test_by_device(away: Corral, url: str, operator: str) -> None:
    started = away.start("login", url, "--device")
    page = address(started)
    started.says("The code is ")
    assert "has its key" in decide(page, operator, "approve").text
    code, out, err = started.end()
    assert (code, "Logged in to" in out) == (0, True), err
    assert away("auth", "can-i", "delete", "agents").out == "yes\n"


def test_a_device_that_is_denied(away: Corral, url: str, operator: str) -> None:
    started = away.start("login", url, "--device")
    decide(address(started), operator, "deny")
    code, _, err = started.end()
    assert (code, "Error (AccessDenied)" in err) == (1, True)


def test_wrong_addresses(away: Corral) -> None:
    assert "no server is named" in away("login", code=2).err
    assert "is not the address of a server" in away("login", "ftp://x", code=2).err
    assert "exclude each other" in away("login", "http://x", "--device", "--with-token", code=2).err
    assert "Error (Unreachable)" in away("login", "http://127.0.0.1:1", code=1).err
    assert "cannot be the name of a context" in away("login", "http://x", "--name", "../x", code=2).err


def test_contexts(away: Corral, server: Corral, url: str, operator: str) -> None:
    for name in ("one", "two"):
        away("login", url, "--with-token", "--name", name, stdin=operator)
    rows = [line.split() for line in away("config", "list").out.splitlines()]
    assert rows[0] == ["NAME", "IN", "USE", "SERVER", "ORGANISATION", "PROJECT"]
    assert [row[:3] for row in rows[1:]] == [["local", "no", "corral"], ["one", "no", url], ["two", "yes", url]]
    away("config", "use", "one")
    server("create", "project", "papers")
    away("config", "set", "one", "--project", "papers")
    away("apply", "-f", "-", stdin="kind: Agent\nmetadata: {name: writer}\n")
    assert away("get", "agent/writer", "-o", "jsonpath={.metadata.namespace}").out == "papers\n"
    assert "Error (NotFound)" in away("--context", "two", "get", "agent/writer", code=1).err
    assert "Error (NotFound)" in Corral(away.home, {"CORRAL_CONTEXT": "two"})("get", "agent/writer", code=1).err
    assert away("get", "agent/writer", "-p", "papers", "-o", "name").out == "agent/writer\n"
    assert yaml.safe_load(away("config", "show").out)["project"] == "papers"
    assert operator not in away("config", "show").out
    assert "Context:      one" in away("whoami").out
    away("config", "use", "local")
    assert "Error (NoServer)" in away("get", "agents", code=1).err
    away("config", "remove", "one")
    for args in (["config", "use", "one"], ["config", "show", "one"], ["--context", "one", "get", "agents"]):
        done = away(*args, code=2)
        assert "there is no context 'one'" in done.err
        assert "two, local" in done.err
    assert "nothing is to be changed" in away("config", "set", "two", code=2).err
    assert "is not the address" in away("config", "set", "two", "--url", "x", code=2).err


def test_a_key_that_others_can_read_is_refused(away: Corral, url: str, operator: str) -> None:
    away("login", url, "--with-token", "--name", "open", stdin=operator)
    file = away.home / ".config" / "corral" / "keys" / "open"
    file.chmod(0o644)
    done = away("get", "agents", code=2)
    assert f"chmod 600 {file}" in done.err
    file.unlink()
    assert "corral login --name open" in away("get", "agents", code=1).err


@pytest.mark.parametrize(
    "text", ["- x", "contexts: {a: {url: 1}}", "contexts: {a: {uri: x}}", "contexts: {'../a': {url: x}}", "a: ["]
)
def test_a_broken_configuration(corral: Corral, text: str) -> None:
    file = corral.home / ".config" / "corral" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    done = corral("get", "agents", code=2)
    assert done.err.startswith("Error: ")
    assert "Traceback" not in done.err


def test_a_key_with_less_rights(away: Corral, server: Corral, url: str) -> None:
    made = server("create", "apikey", "reader", "--scope", "agents:read", "--expires", "30d")
    key = made.out.strip()
    assert key.startswith("nodus_")
    assert "not shown again" in made.err
    assert key not in server("get", "apikey/reader", "-o", "yaml").out
    reader = Corral(away.home, {"CORRAL_URL": url, "CORRAL_KEY": key})
    for question, answer in (("get agents", "yes"), ("create agents", "no"), ("get secrets", "no")):
        code = 0 if answer == "yes" else 1
        assert reader("auth", "can-i", *question.split(), code=code).out == f"{answer}\n"
    assert "NAME" in reader("get", "agents").out or reader("get", "agents").err == "No objects found.\n"
    assert "Error (Forbidden)" in reader("get", "secrets", code=1).err
    credential = json.loads(reader("auth", "token", "--exec-credential").out)
    assert (credential["kind"], credential["status"]) == ("ExecCredential", {"token": key})
