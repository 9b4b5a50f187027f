"""The SDK's documentation and examples run as they are written, and the public names are those that it promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import corral
from corral.sdk._definition import Definition, Submission
from corral.sdk._find import Server

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
EXAMPLES = sorted((ROOT / "examples").glob("sdk_*.py"))

TEMPLATE = """
import corral as nodus

agent = nodus.ClaudeAgent("helper", system="You are careful.", families=["haiku", "sonnet"])
print(agent.remote("Use the shell to print the Python version"))

run = agent.submit("Summarize the logs", keep_alive=True)
run.send("message", "Now the staging logs")
print(run.answer())
print(run.steps())
run.cancel()

many = nodus.ClaudeAgent("many", system="Short.", families=["haiku"], max_tokens=1024, per_run_max_cost="0.10")
many.deploy()
for answer in many.map(["What is 2 + 2?", "What is 3 + 3?"], max_active=2):
    print(answer)

plain = nodus.Agent("plain", image="nodus/agent-tools", per_run_max_cost=0.25)
run = plain.submit("Hello", deadline="2100-01-01T00:00:00Z")
assert run.result() == run.answer()
assert nodus.AgentRun.from_name(run.name, project="default").wait().status.phase == "Succeeded"
"""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(BLOCKS.index(block)))
def test_documentation(block: str, server: Server) -> None:
    exec(compile(block, "docs/sdk.md", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples(file: Path, server: Server) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Done: exit code 0") >= 3
    assert not done.stderr


def test_programs_for_other_clients_of_the_api(server: Server) -> None:
    exec(compile(TEMPLATE, "template", "exec"), {"__name__": "__main__"})


def test_the_public_names() -> None:
    for name in corral.__all__:
        assert getattr(corral, name) is not None
    assert set(corral.__all__) <= set(dir(corral))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = corral.Nothing  # type: ignore[attr-defined]


def test_everything_is_documented() -> None:
    methods = {
        name
        for cls in (corral.Agent, corral.AgentRun, corral.Client, corral.Secret)
        for name in vars(cls)
        if not name.startswith("_")
    }
    internal = {"core", "server", "ensure", "document", "client", "name", "namespace"}
    words = set(re.findall(r"\w+", DOCUMENT))
    assert methods - internal <= words
    assert {*Definition.__annotations__, *Submission.__annotations__} - {"access"} <= words
