"""What an import costs and does: `import corral` nothing, `corral --help` little."""

import json
import subprocess
import sys
from pathlib import Path

HEAVY = {"anyio", "asyncio", "httpx2", "jsonpath", "pydantic", "rich", "sqlalchemy", "starlette", "uvicorn", "yaml"}

WATCH_IMPORT = """
import sys
before, seen = set(sys.modules), []
def record(event, args):
    wrote = event == "open" and args[1] not in ("r", "rb", None)
    if wrote or event.startswith(("socket.", "subprocess.", "os.system", "os.mkdir")):
        seen.append([event, str(args[0])])
sys.addaudithook(record)
import corral
import json
print(json.dumps({"modules": sorted(set(sys.modules) - before - {"json"}), "seen": seen}))
"""

HELP = """
import json, sys, time
sys.argv = ["corral", "--help"]
from corral.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps({"modules": sorted(sys.modules), "seconds": time.process_time()}))
"""


def result_of(program: str, cwd: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], cwd=cwd, capture_output=True, text=True, timeout=60, check=True
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_import_does_nothing(tmp_path: Path) -> None:
    result = result_of(WATCH_IMPORT, tmp_path)
    assert not result["seen"]
    assert not HEAVY & set(result["modules"])  # type: ignore[call-overload]
    assert not list(tmp_path.iterdir())


def test_help_imports_no_verb_and_nothing_heavy(tmp_path: Path) -> None:
    modules = set(result_of(HELP, tmp_path)["modules"])  # type: ignore[call-overload]
    assert not HEAVY & modules
    assert not {m for m in modules if m.startswith("corral.cli.verbs.")}
    assert not {m for m in modules if m.startswith(("corral.serve", "corral.api", "corral.store"))}
