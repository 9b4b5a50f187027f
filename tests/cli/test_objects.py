"""The verbs for objects, as processes beside a real server."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from cli.program import Corral, until

AGENT = """\
apiVersion: nodus.dev/v1
kind: Agent
metadata:
  name: {name}
  labels: {{team: search}}
spec:
  system: Be brief.
  model: {{access: OnDemand, name: scripted/default}}
"""


def agent(server: Corral, name: str) -> None:
    server("apply", "-f", "-", stdin=AGENT.format(name=name))


def test_apply_creates_changes_and_leaves(server: Corral, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(AGENT.format(name="applied"), encoding="utf-8")
    assert server("apply", "-f", str(file)).out == "agent/applied created\n"
    assert server("apply", "-f", str(file)).out == "agent/applied unchanged\n"
    file.write_text(
        AGENT.format(name="applied").replace("  system: Be brief.\n", "  maxToolCalls: 3\n"), encoding="utf-8"
    )
    assert server("apply", "-f", str(file)).out == "agent/applied configured\n"
    spec = yaml.safe_load(server("get", "agent/applied", "-o", "yaml").out)["spec"]
    assert spec["maxToolCalls"] == 3
    assert spec["system"] == ""
    assert server("apply", "-f", str(file)).out == "agent/applied unchanged\n"


def test_apply_several_documents_in_order(server: Corral, tmp_path: Path) -> None:
    run = "kind: AgentRun\nmetadata: {name: from-file}\nspec: {agent: two, input: '[[fake:tool_calls=0]]'}\n"
    (tmp_path / "a.yaml").write_text(f"{AGENT.format(name='two')}---\n{run}", encoding="utf-8")
    assert server("apply", "-f", str(tmp_path)).out == "agent/two created\nagentrun/from-file created\n"
    assert server("delete", "-f", str(tmp_path)).out == "agent/two deleted\nagentrun/from-file deleted\n"


@pytest.mark.parametrize(
    ("manifest", "code", "message"),
    [
        ("kind: Agent\nmetadata: {name: bad}\nspec: {sytem: x}\n", 1, "spec.sytem: there is no such field"),
        ("kind: Agent\nmetadata: {name: bad}\nspec: {maxTokens: 'many'}\n", 1, "spec.maxTokens"),
        ("kind: Agent\nmetadata: {name: bad}\nspec: {system: on}\n", 1, "spec.system"),
        ("kind: Agent\nmetadata: {name: bad}\nspec: {system: a, system: b}\n", 2, "the key 'system' appears twice"),
        ("kind: Agnt\nmetadata: {name: bad}\n", 2, "there is no kind 'Agnt'"),
        ("kind: Agent\nspec: {}\n", 2, "has no metadata.name"),
        ("kind: [Agent\n", 2, "stdin, line 2"),
    ],
)
def test_bad_manifests(server: Corral, manifest: str, code: int, message: str) -> None:
    done = server("apply", "-f", "-", stdin=manifest, code=code)
    assert message in done.err
    assert "Traceback" not in done.err
    if code == 1:
        assert "Error (Invalid): " in done.err
        assert "fix: " in done.err


def test_get(server: Corral) -> None:
    agent(server, "listed")
    titles, *rows = server("get", "agents", "-l", "team=search").out.splitlines()
    assert titles.split()[:3] == ["NAME", "MODEL", "ACCESS"]
    assert any(row.startswith("listed ") for row in rows)
    assert "IMAGE" in server("get", "agents", "-o", "wide").out.splitlines()[0]
    assert server("get", "agents", "listed", "-o", "name").out == "agent/listed\n"
    assert json.loads(server("get", "agent/listed", "-o", "json").out)["metadata"]["name"] == "listed"
    listing = json.loads(server("get", "agents", "--field-selector", "metadata.name=listed", "-o", "json").out)
    assert (listing if listing["kind"] == "Agent" else listing["items"][0])["metadata"]["name"] == "listed"
    assert server("get", "agents", "-A").out.splitlines()[0].startswith("PROJECT ")
    assert server("get", "agents", "-l", "team=nobody").err == "No objects found.\n"
    assert "Error (NotFound)" in server("get", "agent/absent", code=1).err
    assert "there is no kind 'agnts'" in server("get", "agnts", code=2).err
    assert "is not an output format" in server("get", "agents", "-o", "xml", code=2).err


def test_get_watches(server: Corral) -> None:
    agent(server, "before")
    watching = server.start("get", "agents", "-w", "-o", "name")
    until(lambda: "agent/before\n" in watching.out, "the list")
    agent(server, "after")
    until(lambda: "agent/after\n" in watching.out, "the change")
    code, _, err = watching.end(signal.SIGINT)
    assert code == 130
    assert "Traceback" not in err


def test_describe_shows_fields_and_events(server: Corral) -> None:
    agent(server, "described")
    server("create", "agentrun", "described-run", "--agent", "described", "--prompt", "[[fake:tool_calls=0]]")
    server("wait", "ar/described-run", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    out = server("describe", "ar/described-run").out
    assert "described-run" in out
    assert "Phase:" in out
    assert "Events:" in out
    assert "last-applied" not in server("describe", "agent/described").out


def test_the_life_of_a_run(server: Corral) -> None:
    agent(server, "worker")
    prompt = "[[fake:command=echo one]]"
    assert server("create", "agentrun", "kept", "--agent", "worker", "--prompt", prompt, "--keep-alive").out == (
        "agentrun/kept created\n"
    )
    assert server("agentrun", "answer", "kept").out == "Done: exit code 0\none\n"
    sent = server("agentrun", "send", "kept", "[[fake:command=echo two]]", "--key", "m-1").out
    assert sent == server("agentrun", "send", "kept", "[[fake:command=echo two]]", "--key", "m-1").out
    assert sent.startswith("message 1 sent to agentrun/kept")
    assert server("agentrun", "answer", "agentrun/kept").out == "Done: exit code 0\ntwo\n"
    titles, *rows = server("agentrun", "steps", "kept").out.splitlines()
    assert titles.split()[:4] == ["STEP", "NAME", "EFFECT", "OUTCOME"]
    assert sum("echo " in row for row in rows) == 2
    assert json.loads(server("agentrun", "steps", "kept", "-o", "json").out)["items"][0]["outcome"] == "Completed"
    assert server("cancel", "agentrun/kept").out == "agentrun/kept cancelled\n"
    waited = server("wait", "ar/kept", "--for=jsonpath={.status.phase}=Cancelled", "--timeout=60s")
    assert waited.out == "agentrun/kept condition met\n"
    assert "Error (AgentRunFinished)" in server("agentrun", "send", "kept", "more", code=1).err
    assert server("delete", "ar/kept").out == "agentrun/kept deleted\n"
    assert "Error (NotFound)" in server("get", "ar/kept", code=1).err
    assert server("delete", "ar/kept", "--ignore-not-found").out == ""


def test_wait(server: Corral) -> None:
    agent(server, "waited")
    server("create", "agentrun", "slow", "--agent", "waited", "--prompt", "[[fake:command=sleep 300]]")
    done = server("wait", "ar/slow", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=300ms", code=4)
    assert "Error (TimedOut): agentrun/slow is not" in done.err
    waiting = server.start("wait", "ar/slow", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    server("cancel", "ar/slow")
    code, _, err = waiting.end()
    assert code == 1
    assert "agentrun/slow ended as Cancelled" in err
    deleted = server.start("wait", "ar/slow", "--for=delete", "--timeout=60s")
    server("delete", "ar", "slow")
    assert deleted.end()[:2] == (0, "agentrun/slow deleted\n")
    assert "is not a condition" in server("wait", "ar/x", "--for=done", code=2).err
    assert "Error (NotFound)" in server("wait", "ar/x", "--for=condition=Ready", code=1).err


def test_patch(server: Corral) -> None:
    agent(server, "patched")
    assert (
        server("patch", "agent/patched", "--patch", '{"spec": {"state": "Stopped"}}').out == "agent/patched patched\n"
    )
    assert server("get", "agent/patched", "-o", "jsonpath={.spec.state}").out == "Stopped\n"
    assert "spec.state" in server("patch", "agent/patched", "--patch", '{"spec": {"state": "Asleep"}}', code=1).err
    assert "appears twice" in server("patch", "agent/patched", "--patch", '{"a": 1, "a": 2}', code=2).err


def test_secrets_do_not_come_back(server: Corral, tmp_path: Path) -> None:
    (tmp_path / "key.bin").write_bytes(b"\x00\xff")
    literal, file = "--from-literal=token=hunter2", f"--from-file=key={tmp_path / 'key.bin'}"
    assert server("create", "secret", "tokens", literal, file).out == "secret/tokens created\n"
    shown = server("get", "secret/tokens", "-o", "json").out + server("describe", "secret/tokens").out
    assert "hunter2" not in shown
    assert sorted(json.loads(server("get", "secret/tokens", "-o", "json").out)["status"]["keys"]) == ["key", "token"]
    done = server("create", "secret", "tokens", "--from-literal=hunter2", code=2)
    assert "hunter2" not in done.err
    manifest = "kind: Secret\nmetadata: {name: tokens}\nspec: {stringData: {token: hunter3}}\n"
    assert server("apply", "-f", "-", stdin=manifest).out == "secret/tokens configured\n"
    assert "hunter3" not in server("get", "secret/tokens", "-o", "yaml").out


def test_events(server: Corral) -> None:
    agent(server, "eventful")
    server("create", "agentrun", "eventful-run", "--agent", "eventful", "--prompt", "[[fake:tool_calls=0]]")
    server("wait", "ar/eventful-run", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    titles, *rows = server("events", "--for", "ar/eventful-run").out.splitlines()
    assert titles.split()[-2:] == ["OBJECT", "MESSAGE"]
    assert rows
    assert all("agentrun/eventful-run" in row for row in rows)


def test_env_is_for_a_shell(server: Corral) -> None:
    out = server("env").out
    shell = subprocess.run(
        ["sh", "-c", f'{out}\nprintf "%s %s" "$NODUS_API_URL" "$CORRAL_KEY"'],
        capture_output=True,
        text=True,
        check=True,
    )
    url, key = shell.stdout.split()
    assert json.loads(server("env", "--json").out)["CORRAL_URL"] == url
    elsewhere = Corral(server.home, {"CORRAL_HOME": "/nonexistent", "CORRAL_URL": url, "CORRAL_KEY": key})
    assert "NAME" in elsewhere("get", "agents").out
    wrong = Corral(server.home, {"CORRAL_HOME": "/nonexistent", "CORRAL_URL": url, "CORRAL_KEY": "wrong"})
    assert "Error (Unauthorized)" in wrong("get", "agents", code=1).err


def test_a_second_server_of_the_same_home_is_refused(server: Corral) -> None:
    done = server("up", "--port", "0", code=1)
    assert "Error (CannotStart)" in done.err
    assert "fix: " in done.err


def test_projects(server: Corral) -> None:
    missing = server("apply", "-p", "other", "-f", "-", stdin=AGENT.format(name="elsewhere"), code=1)
    assert "corral create project other" in missing.err
    assert server("create", "project", "other").out == "project/other created\n"
    server("apply", "-p", "other", "-f", "-", stdin=AGENT.format(name="elsewhere"))
    assert "Error (NotFound)" in server("get", "agent/elsewhere", code=1).err
    inside = Corral(server.home, {"CORRAL_PROJECT": "other"})
    assert inside("get", "agent/elsewhere", "-o", "jsonpath={.metadata.namespace}").out == "other\n"


def test_no_server(corral: Corral) -> None:
    done = corral("get", "agents", code=1)
    assert "Error (NoServer)" in done.err
    assert "corral up" in done.err
    stale = corral.home / "corral" / "server.json"
    stale.parent.mkdir()
    stale.write_text(json.dumps({"url": "http://127.0.0.1:1", "key": "k", "pid": dead_pid()}), encoding="utf-8")
    assert "Error (NoServer)" in corral("get", "agents", code=1).err


def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    assert not Path(f"/proc/{process.pid}").exists()
    return process.pid


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"CORRAL_URL": "127.0.0.1:8700", "CORRAL_KEY": "k"}, "CORRAL_URL is '127.0.0.1:8700'"),
        ({"CORRAL_URL": "http://127.0.0.1:8700"}, "CORRAL_KEY is not"),
    ],
)
def test_half_a_configuration(corral: Corral, env: dict[str, str], message: str) -> None:
    assert message in Corral(corral.home, env)("get", "agents", code=2).err
