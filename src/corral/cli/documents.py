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


def printer(output: str) -> Callable[[Sequence[dict[str, Any]]], str]:
    """What turns objects into the text of `-o OUTPUT`. Raises Failure for a format that does not exist."""
    if output == "name":
        return lambda items: "\n".join(f"{item['kind'].lower()}/{item['metadata']['name']}" for item in items)
    if output == "json":
        return lambda items: printing.as_json(_one(items))
    if output == "yaml":
        return lambda items: as_yaml(_one(items))
    if output.startswith("jsonpath="):
        template = jsonpath.compile(output.removeprefix("jsonpath="))
        return lambda items: template(_one(items))
    raise usage(f"-o {output} is not an output format", f"Use -o {FORMATS}.")


def _one(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(items) == 1:
        return items[0]
    return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": list(items)}
