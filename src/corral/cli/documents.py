"""Objects printed whole: YAML, JSON, names, or what a JSONPath picks."""

from collections.abc import Callable, Sequence
from typing import Any

import yaml

from corral.cli import jsonpath, printing
from corral.cli.failures import usage

FORMATS = "yaml, json, name, wide or jsonpath=EXPRESSION"


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, which is how people write it."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(document: Any) -> str:
    """YAML in the order of the document."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")


Printer = Callable[[Sequence[dict[str, Any]] | dict[str, Any]], str]
"""Text for one object, or for several as a List."""


def printer(output: str) -> Printer:
    """What turns objects into the text of `-o OUTPUT`. Raises Failure for a format that does not exist."""
    if output == "name":
        return lambda found: "\n".join(map(_name, [found] if isinstance(found, dict) else found))
    if output == "json":
        return lambda found: printing.as_json(_document(found))
    if output == "yaml":
        return lambda found: as_yaml(_document(found))
    if output.startswith("jsonpath="):
        template = jsonpath.compile(output.removeprefix("jsonpath="))
        return lambda found: template(_document(found))
    raise usage(f"-o {output} is not an output format", f"Use -o {FORMATS}.")


def _name(item: dict[str, Any]) -> str:
    return f"{item['kind'].lower()}/{item['metadata']['name']}"


def _document(found: Sequence[dict[str, Any]] | dict[str, Any]) -> dict[str, Any]:
    if isinstance(found, dict):
        return found
    return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": list(found)}
