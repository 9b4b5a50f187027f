"""The shape of the code: sizes, docstrings, no import hidden in a function, and no drawer for everything."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "corral"
MODULES = sorted(ROOT.rglob("*.py"))
MODULE_LINES, FUNCTION_LINES = 400, 50
LAZY = {
    # It starts a whole server only when there is none.
    "cli/verbs/run.py": {"corral"},
}
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "shared", "stuff"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def docstring_lines(tree: ast.AST) -> set[int]:
    nodes = [n for n in ast.walk(tree) if isinstance(n, Documented) and ast.get_docstring(n)]
    return {line for n in nodes for line in range(n.body[0].lineno, (n.body[0].end_lineno or 0) + 1)}


def code_lines(node: ast.Module | Function, source: str) -> int:
    """Lines of a module or function without blank lines, comments and docstrings."""
    lines = source.splitlines()
    first, last = (1, len(lines)) if isinstance(node, ast.Module) else (node.lineno, node.end_lineno or node.lineno)
    text = {i for i in range(first, last + 1) if (t := lines[i - 1].strip()) and not t.startswith("#")}
    return len(text - docstring_lines(node))


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def first_party(function: Function) -> Iterator[str]:
    """The modules of the package that a function imports while it runs."""
    for node in ast.walk(function):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "" if not node.level else "corral"]
        yield from (n for n in names if n.split(".")[0] == "corral")


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_module(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert ast.get_docstring(tree), "a module says in one line what it is"
    assert code_lines(tree, source) <= MODULE_LINES, "split the module's meaning before it is this long"
    for function in functions(tree):
        where = f"{function.name}, line {function.lineno},"
        assert code_lines(function, source) <= FUNCTION_LINES, f"{where} does more than one thing"
        hidden = set(first_party(function)) - LAZY.get(name(file), set())
        assert not hidden, f"{where} hides an import of {', '.join(hidden)}: move it to the top of the file"


def test_no_drawer_for_everything() -> None:
    assert not [name(f) for f in MODULES if DRAWERS & {*f.relative_to(ROOT).parts[:-1], f.stem.strip("_")}]


def test_the_measure_counts_code_only() -> None:
    source = '"""Doc.\n\nMore.\n"""\n\n# why\nx = 1\n\n\ndef f():\n    """Doc."""\n    return x\n'
    assert code_lines(ast.parse(source), source) == 3


def test_hidden_imports_are_seen() -> None:
    (function,) = functions(
        ast.parse("def f():\n    if x:\n        from corral.store import sqlite\n        import corral.api\n")
    )
    assert list(first_party(function)) == ["corral.store", "corral.api"]
