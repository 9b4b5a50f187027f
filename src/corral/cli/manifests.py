"""Objects in files: YAML with several documents, or JSON. What is ambiguous is refused with its line."""

import json
import sys
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

from corral import kinds
from corral.cli.failures import Failure, usage

_SUFFIXES = (".yaml", ".yml", ".json")


class _Loader(yaml.SafeLoader):
    """YAML as JSON knows it: keys are text and appear once, and a date stays the text it was."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if key_node.tag != "tag:yaml.org,2002:str":
                raise _refusal(key_node, f"the key {key} is not text: quote it")
            if key in seen:
                raise _refusal(key_node, f"the key {key!r} appears twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _refusal(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(source: str) -> list[dict[str, Any]]:
    """The objects in a file, in all files of a directory, or (`-`) on stdin; the items of a List one by one.

    Raises Failure, naming file and line, for what cannot be read.
    """
    documents = [d for name, text in _texts(source) for d in _objects(name, text)]
    if not documents:
        raise usage(f"{source} holds no object", "Write one with apiVersion, kind and metadata.name.")
    return documents


def check(document: dict[str, Any]) -> None:
    """Hold an object against this program's declarations. Raises Failure that names every wrong field."""
    try:
        kinds.scheme.decode(json.dumps(document))
    except kinds.Problem as problem:
        causes = [(cause.field, cause.message) for cause in problem.causes]
        raise Failure(problem.message, reason=problem.reason.name, fix=problem.fix, causes=causes) from None


def _texts(source: str) -> Iterator[tuple[str, str]]:
    if source == "-":
        yield "stdin", sys.stdin.read()
        return
    path = Path(source)
    try:
        files = sorted(f for f in path.iterdir() if f.suffix in _SUFFIXES) if path.is_dir() else [path]
        for file in files:
            yield str(file), file.read_text(encoding="utf-8")
    except OSError as error:
        raise usage(f"{error.filename or source} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise usage(f"{source} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from None


def _objects(name: str, text: str) -> Iterator[dict[str, Any]]:
    for document in _documents(name, text):
        if document is None:
            continue
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else [document]
        for item in items if isinstance(items, list) else [items]:
            if not isinstance(item, dict):
                raise usage(f"{name} holds {type(item).__name__} where an object should be", "Begin with `kind: ...`.")
            yield item


def _documents(name: str, text: str) -> list[Any]:
    if name.endswith(".json"):
        try:
            return [kinds.parse(text)]
        except kinds.Problem as problem:
            raise usage(f"{name}: {problem.message}", problem.fix) from None
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
        json.dumps(documents, allow_nan=False)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
        raise usage(f"{where}: {error.problem or error.context or 'this is not YAML'}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise usage(f"{name} holds what JSON cannot say: {str(error).splitlines()[0]}") from None
    return documents
