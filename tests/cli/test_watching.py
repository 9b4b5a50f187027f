"""Verbs that show how things are: get with its options, logs, wait's progress, kinds, describe of every kind."""

import json
import re

import pytest

from cli.program import Corral, until
from corral.kinds import scheme


def agent(server: Corral, name: str, *labels: str, system: str = "x") -> None:
    server("apply", "-f", "-", stdin=f"kind: Agent\nmetadata: {{name: {name}}}\nspec: {{system: {system}}}\n")
    if labels:
        server("label", f"agent/{name}", *labels)


def run(server: Corral, name: str, prompt: str) -> None:
    server("create", "agentrun", name, "--agent", "looked-at", "--prompt", prompt)


def test_the_columns_that_get_can_have(server: Corral) -> None:
    for name, size in (("cols-a", "10"), ("cols-b", "9"), ("cols-c", "9.5")):
        agent(server, name, "set=cols", f"size={size}")
    chosen = ("get", "agents", "-l", "set=cols")
    names = [line.split()[0] for line in server(*chosen, "--sort-by=.metadata.labels.size").out.splitlines()]
    assert names == ["NAME", "cols-b", "cols-c", "cols-a"]
    assert server(*chosen, "--sort-by=.metadata.labels.size", "-o", "name").out.split() == [
        "agent/cols-b",
        "agent/cols-c",
        "agent/cols-a",
    ]
    titles, first, *_ = server(*chosen, "--show-labels").out.splitlines()
    assert titles.split()[-1] == "LABELS"
    assert first.split()[-1] == "nodus.dev/created-by=operator,set=cols,size=10"
    bare = server(*chosen, "--no-headers").out.splitlines()
    assert len(bare) == 3
    assert bare[0].startswith("cols-a ")
    titles, *rows = server(*chosen, "-A", "-o", "wide").out.splitlines()
    assert titles.split()[:2] == ["PROJECT", "NAME"]
    assert all(row.split()[0] == "default" for row in rows)
    assert len(server("get", "agents", "--mine", "-l", "set=cols", "-o", "name").out.split()) == 3
    template = "jsonpath={range .items[*]}{.metadata.name} {end}"
    assert server(*chosen, "-o", template).out == "cols-a cols-b cols-c \n"
    assert server("get", "agents", "-l", "size=10", "-o", template).out == "cols-a \n"
    assert server("get", "agents", "-l", "size=11", "-o", "json").out.count('"items": []') == 1
    assert "exclude each other" in server("get", "agent/cols-a", "--mine", code=2).err
    assert "is not a JSONPath" in server(*chosen, "--sort-by=.a[", code=2).err


def test_only_what_is_mine(server: Corral) -> None:
    key = server("create", "apikey", "colleague", "--user", "sam", "--scope", "*").out.strip()
    url = json.loads(server("env", "--json").out)["CORRAL_URL"]
    sam = Corral(server.home, {"CORRAL_URL": url, "CORRAL_KEY": key})
    agent(sam, "of-sam")
    assert sam("get", "agents", "--mine", "-o", "name").out == "agent/of-sam\n"
    assert "of-sam" not in server("get", "agents", "--mine", "-o", "name").out


def test_watching_goes_on_with_changes(server: Corral) -> None:
    agent(server, "watched", "watch=yes")
    watching = server.start("get", "agents", "-l", "watch=yes", "--show-labels", "-w")
    until(lambda: "watched" in "".join(watching.out), "the list")
    server("label", "agent/watched", "more=1")
    until(lambda: "more=1" in "".join(watching.out), "the change")
    assert watching.end(2)[0] == 130


def test_a_log_of_a_run(server: Corral) -> None:
    agent(server, "looked-at")
    run(server, "logged", "[[fake:command=echo from the sandbox]]")
    lines = server("logs", "-f", "ar/logged").out.splitlines()
    at = lines.index("$ echo from the sandbox")
    assert lines[at + 1] == "  from the sandbox"
    assert lines[-2].startswith("  ")
    assert re.fullmatch(r"run logged  Succeeded, \$0\.00 of \$1\.00", lines[-1])
    assert server("logs", "agentrun", "logged").out.splitlines() == lines
    short = server("logs", "ar/logged", "--tail", "1").out.splitlines()
    assert short[0].startswith("turn 1   model call ... ")
    assert short[-1] == lines[-1]
    assert "agent/looked-at has no log" in server("logs", "agent/looked-at", code=2).err
    assert "Error (NotFound)" in server("logs", "ar/nobody", code=1).err


def test_a_log_goes_on_while_the_run_does(server: Corral) -> None:
    agent(server, "looked-at")
    run(server, "long", "[[fake:command=sleep 300]]")
    following = server.start("logs", "-f", "ar/long")
    until(lambda: "$ sleep 300" in "".join(following.out), "the command's start")
    server("cancel", "ar/long")
    code, out, _ = following.end()
    assert (code, out.splitlines()[-1].split(",")[0]) == (0, "run long  Cancelled")


def test_a_wait_tells_how_far_things_are(server: Corral) -> None:
    agent(server, "looked-at")
    run(server, "waited-for", "[[fake:command=sleep 300]]")
    waiting = server.start("wait", "ar/waited-for", "--for=jsonpath={.status.phase}=Cancelled", "--timeout=60s")
    waiting.says("agentrun/waited-for Running")
    server("cancel", "ar/waited-for")
    code, out, err = waiting.end()
    assert (code, out) == (0, "agentrun/waited-for condition met\n")
    assert len(err.splitlines()) == len(set(err.splitlines()))


def test_a_wait_on_a_terminal_is_one_line(server: Corral) -> None:
    agent(server, "looked-at")
    run(server, "on-screen", "[[fake:command=sleep 300]]")
    server("wait", "ar/on-screen", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    condition = "--for=jsonpath={.status.phase}=Succeeded"
    text = server.on_terminal("wait", "ar/on-screen", condition, "--timeout=3s")
    assert "agentrun/on-screen  Running" in text
    assert "of $1.00" in text
    server("cancel", "ar/on-screen")


def test_kinds(server: Corral) -> None:
    titles, *rows = server("kinds").out.splitlines()
    assert titles.split() == ["NAME", "SHORT", "NAMES", "IN", "PROJECTS", "KIND"]
    assert ["agentruns", "ar", "yes", "AgentRun"] in [row.split() for row in rows]
    assert "agentruns" in server("api-resources", "-o", "name").out.split()
    assert server("kinds", "-o", "wide").out.splitlines()[0].split()[-1] == "VERBS"
    assert json.loads(server("kinds", "-o", "json").out)["kind"] == "APIResourceList"
    assert "is not an output format" in server("kinds", "-o", "xml", code=2).err


@pytest.mark.parametrize("kind", sorted(kind.plural for kind in scheme))
def test_every_kind_is_listed_and_described(server: Corral, kind: str) -> None:
    agent(server, "looked-at")
    found = server("get", kind, "-o", "name").out.split()
    for name in found[:1]:
        assert server("describe", name).out.startswith("Name:")
    assert server("get", kind).err in ("", "No objects found.\n")
