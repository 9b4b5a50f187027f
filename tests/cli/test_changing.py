"""Verbs that change objects or show what would change: diff, dry runs, edit, label, annotate, start, stop, patch."""

import json
import re
import shlex
import stat
from pathlib import Path

import pytest

from cli.program import PROGRAM, Corral, Done

AGENT = "kind: Agent\nmetadata: {{name: {name}}}\nspec: {{system: {system}}}\n"


def agent(server: Corral, name: str, system: str = "Be kind.") -> str:
    text = AGENT.format(name=name, system=system)
    server("apply", "-f", "-", stdin=text)
    return text


def value(server: Corral, what: str, path: str) -> str:
    return server("get", what, "-o", f"jsonpath={path}").out.rstrip("\n")


def test_a_dry_run_stores_nothing(server: Corral) -> None:
    text = AGENT.format(name="dry", system="x")
    assert server("apply", "--dry-run=server", "-f", "-", stdin=text).out == "agent/dry created (server dry run)\n"
    shown = json.loads(server("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=text).out)
    assert (shown["metadata"]["name"], shown["spec"]["maxTokens"]) == ("dry", 8192)
    assert "Error (NotFound)" in server("get", "agent/dry", code=1).err
    agent(server, "dry", "x")
    other = AGENT.format(name="dry", system="y")
    assert server("apply", "--dry-run=server", "-f", "-", stdin=other).out == "agent/dry configured (server dry run)\n"
    patch = '{"spec": {"system": "z"}}'
    assert server("patch", "agent/dry", "--patch", patch, "--dry-run=server", "-o", "name").out == "agent/dry\n"
    assert value(server, "agent/dry", "{.spec.system}") == "x"
    wrong = server("apply", "--dry-run=server", "-f", "-", stdin=text.replace("system", "sistem"), code=1)
    assert "spec.sistem" in wrong.err
    assert "--dry-run=maybe is not known" in server("apply", "--dry-run=maybe", "-f", "-", stdin=text, code=2).err


def test_a_client_dry_run_needs_no_server(corral: Corral) -> None:
    text = AGENT.format(name="a", system="x")
    assert corral("apply", "--dry-run=client", "-f", "-", stdin=text).out == "agent/a is valid (client dry run)\n"
    assert corral("create", "--dry-run=client", "-f", "-", stdin=text).out == "agent/a is valid (client dry run)\n"
    done = corral("apply", "--dry-run=client", "-f", "-", stdin=text.replace("system", "sistem"), code=1)
    assert "Error (Invalid)" in done.err
    assert "spec.sistem: there is no such field" in done.err


def test_create_from_files(server: Corral) -> None:
    agent(server, "maker")
    run = "kind: AgentRun\nmetadata: {generateName: made-}\nspec: {agent: maker, input: hello}\n"
    names = [server("create", "-f", "-", stdin=run).out for _ in range(2)]
    assert all(re.fullmatch(r"agentrun/made-\w{5} created\n", name) for name in names)
    assert names[0] != names[1]
    assert "nothing is to be created" in server("create", code=2).err
    wrong = server("create", "-f", "-", "secret", "x", "--from-literal=a=b", stdin=run, code=2)
    assert "--filename before a kind has no meaning" in wrong.err
    misplaced = server("create", "-p", "other", "secret", "x", "--from-literal=a=b", code=2)
    assert "--project before a kind has no meaning" in misplaced.err


def test_diff(server: Corral) -> None:
    text = AGENT.format(name="different", system="one")
    new = server("diff", "-f", "-", stdin=text, code=1).out.splitlines()
    assert new[:2] == ["--- live/agent/different", "+++ applied/agent/different"]
    assert "+  maxTokens: 8192" in new
    agent(server, "different", "one")
    assert server("diff", "-f", "-", stdin=text).out == ""
    changed = server("diff", "-f", "-", stdin=text.replace("one", "two"), code=1).out.splitlines()
    assert [line for line in changed[2:] if line[0] in "+-"] == ["-  system: one", "+  system: two"]
    assert value(server, "agent/different", "{.spec.system}") == "one"
    wrong = server("diff", "-f", "-", stdin=text.replace("system", "sistem"), code=2)
    assert "spec.sistem" in wrong.err


def test_a_diff_has_colours_on_a_terminal_only(server: Corral, tmp_path: Path) -> None:
    agent(server, "coloured", "one")
    file = tmp_path / "a.yaml"
    file.write_text(AGENT.format(name="coloured", system=r'"two\e[2J"'), encoding="utf-8")
    assert "\x1b" not in server("diff", "-f", str(file), code=1).out.replace("\\e", "")
    shown = server.on_terminal("diff", "-f", str(file))
    assert "\x1b[31m-  system: one\x1b[0m" in shown
    assert "\x1b[2J" not in shown
    plain = Corral(server.home, {"NO_COLOR": "1"}).on_terminal("diff", "-f", str(file))
    assert "-  system: one" in plain
    assert "\x1b[" not in plain


def test_a_run_with_a_duration_can_be_applied_again(server: Corral) -> None:
    agent(server, "timely")
    text = "kind: AgentRun\nmetadata: {name: timely}\nspec: {agent: timely, input: hello, deadline: 30m}\n"
    assert server("apply", "-f", "-", stdin=text).out == "agentrun/timely created\n"
    assert server("apply", "-f", "-", stdin=text).out == "agentrun/timely unchanged\n"
    assert server("diff", "-f", "-", stdin=text).out == ""
    done = server("apply", "-f", "-", stdin=text.replace("30m", "40m"), code=1)
    assert "Error (FieldImmutable): spec.deadline" in done.err


def edited(server: Corral, what: str, script: str, code: int = 0) -> Done:
    editor = server.home / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    editor.chmod(0o755)
    return Corral(server.home, {"EDITOR": str(editor), "TMPDIR": str(server.home)})("edit", what, code=code)


def kept(done: Done) -> Path:
    found = re.search(r"Your text is kept in (\S+)\.$", done.err, re.MULTILINE)
    assert found, done.err
    return Path(found[1])


def test_edit(server: Corral) -> None:
    agent(server, "edited")
    done = edited(server, "agent/edited", 'sed -i "s/Be kind/Be brief/" "$1"')
    assert done.out == "agent/edited edited\n"
    assert value(server, "agent/edited", "{.spec.system}") == "Be brief."
    assert edited(server, "agent/edited", "true").out == "agent/edited unchanged\n"
    assert not list(server.home.glob("corral-agent-*"))


def test_a_text_that_is_refused_is_kept(server: Corral) -> None:
    agent(server, "refused")
    done = edited(server, "agent/refused", 'sed -i "s/system/sistem/" "$1"', code=1)
    assert "spec.sistem" in done.err
    file = kept(done)
    assert "sistem: Be kind." in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    broken = edited(server, "agent/refused", 'echo "a: [" >> "$1"', code=2)
    kept(broken).unlink()
    renamed = edited(server, "agent/refused", 'sed -i "s/name: refused/name: other/" "$1"', code=2)
    assert "does not describe agent/refused any more" in renamed.err
    kept(renamed).unlink()
    untouched = edited(server, "agent/refused", "exit 3", code=1)
    assert "exit code 3; nothing is changed" in untouched.err
    assert "kept" not in untouched.err
    assert not list(server.home.glob("corral-agent-*"))


def test_what_somebody_else_wrote_is_not_overwritten(server: Corral) -> None:
    agent(server, "contested")
    # The editor lets somebody else write before it is left.
    script = f'{shlex.join([*PROGRAM, "label", "agent/contested", "who=else"])} >&2 && sed -i "s/Be kind/Mine/" "$1"'
    done = edited(server, "agent/contested", script, code=1)
    assert "Error (Conflict)" in done.err
    assert "system: Mine" in kept(done).read_text(encoding="utf-8")
    kept(done).unlink()
    assert value(server, "agent/contested", "{.spec.system} {.metadata.labels.who}") == "Be kind. else"


def test_on_a_terminal_the_editor_opens_again_with_the_reason(server: Corral) -> None:
    agent(server, "retried")
    editor = server.home / "editor"
    script = """#!/bin/sh
cat "$1" >> seen
if grep -q "^# Error (Invalid)" "$1"; then new=system; else new=sistem; fi
sed -i "s/^  system: .*/  $new: Twice./; s/^  sistem: .*/  $new: Twice./" "$1"
"""
    editor.write_text(script, encoding="utf-8")
    editor.chmod(0o755)
    env = {"EDITOR": str(editor), "TMPDIR": str(server.home)}
    assert "agent/retried edited" in Corral(server.home, env).on_terminal("edit", "agent/retried")
    assert value(server, "agent/retried", "{.spec.system}") == "Twice."
    assert "# Error (Invalid): " in (server.home / "seen").read_text(encoding="utf-8")
    editor.write_text('#!/bin/sh\nsed -i "s/^  system/  sistem/" "$1"\n', encoding="utf-8")
    given_up = Corral(server.home, env).on_terminal("edit", "agent/retried")
    found = re.search(r"Your text is kept in (\S+)\.", given_up)
    assert found
    assert "  sistem: Twice." in Path(found[1]).read_text(encoding="utf-8")
    Path(found[1]).unlink()


def test_no_editor(server: Corral) -> None:
    agent(server, "uneditable")
    assert "no editor is configured" in Corral(server.home, {"PATH": ""})("edit", "agent/uneditable", code=2).err
    missing = Corral(server.home, {"EDITOR": "/nonexistent"})("edit", "agent/uneditable", code=2)
    assert "/nonexistent cannot be run" in missing.err


@pytest.mark.parametrize(
    ("verb", "field", "done"), [("label", "labels", "labeled"), ("annotate", "annotations", "annotated")]
)
def test_labels_and_annotations(server: Corral, verb: str, field: str, done: str) -> None:
    agent(server, f"{verb}-1")
    agent(server, f"{verb}-2")
    both = (f"agent/{verb}-1", f"agent/{verb}-2")
    assert server(verb, *both, "team=search", "x.io/y=1").out == f"{both[0]} {done}\n{both[1]} {done}\n"
    assert server(verb, both[0], "team=search").out == f"{both[0]} unchanged\n"
    assert server(verb, "agent", f"{verb}-1", "team-", "x.io/y=2").out == f"{both[0]} {done}\n"
    marks = json.loads(server("get", both[0], "-o", "json").out)["metadata"][field]
    assert (marks.get("team"), marks["x.io/y"]) == (None, "2")
    for words, message in (
        ((both[0],), "both an object and a change are needed"),
        (("team=x",), "both an object and a change are needed"),
        ((both[0], "a=1", "a-"), "'a' appears twice"),
        ((both[0], "=1"), "has no key"),
        (("agents", "a=1"), "is not an object"),
    ):
        assert message in server(verb, *words, code=2).err


def test_start_and_stop(server: Corral) -> None:
    agent(server, "idle")
    assert server("stop", "agent/idle").out == "agent/idle stopped\n"
    refused = server("create", "agentrun", "never", "--agent", "idle", "--prompt", "x", code=1)
    assert "Error (AgentStopped)" in refused.err
    assert server("start", "agent", "idle").out == "agent/idle started\n"
    server("create", "agentrun", "at-last", "--agent", "idle", "--prompt", "x")
    assert "agentrun/at-last cannot be Stopped" in server("stop", "ar/at-last", code=2).err
    assert "agent/idle cannot be Cancelled" in server("cancel", "agent/idle", code=2).err
    assert "cannot be Stopped" in server("stop", "agents", code=2).err


def test_json_patch(server: Corral) -> None:
    agent(server, "operated")
    change = '[{"op": "replace", "path": "/spec/system", "value": "By hand."}]'
    assert server("patch", "agent/operated", "--type", "json", "--patch", change).out == "agent/operated patched\n"
    assert value(server, "agent/operated", "{.spec.system}") == "By hand."
    assert "is not a JSON list" in server("patch", "agent/operated", "--type", "json", "--patch", "{}", code=2).err
    assert "is not a JSON object" in server("patch", "agent/operated", "--patch", "[]", code=2).err
    assert "is not a kind of patch" in server("patch", "agent/operated", "--type", "x", "--patch", "[]", code=2).err


def test_delete_by_labels(server: Corral) -> None:
    for name in ("doomed-1", "doomed-2", "spared"):
        agent(server, name)
        server("label", f"agent/{name}", f"fate={name.partition('-')[0]}")
    assert server("delete", "agents", "-l", "fate=doomed").out == "agent/doomed-1 deleted\nagent/doomed-2 deleted\n"
    assert server("delete", "agents", "-l", "fate=doomed").err == "No objects found.\n"
    assert value(server, "agent/spared", "{.metadata.name}") == "spared"
    assert "delete needs names" in server("delete", "agents", code=2).err
    assert "delete needs names" in server("delete", "agent/spared", "-l", "a=b", code=2).err
