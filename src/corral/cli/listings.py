"""What `get` prints: the server's tables, or the objects themselves, and then their changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from corral.cli import jsonpath, printing
from corral.cli.documents import Printer
from corral.cli.targets import Target
from corral.sdk import Client

Row = list[Any]


@dataclass(frozen=True)
class Listing:
    """Which objects, in which order, with which columns."""

    targets: Sequence[Target]
    labels: str = ""
    fields: str = ""
    everywhere: bool = False
    sort_by: str = ""
    """A JSONPath; empty for the server's order."""
    wide: bool = False
    show_labels: bool = False
    headers: bool = True
    watching: bool = False

    @property
    def selection(self) -> dict[str, Any]:
        """The arguments of a list or a watch."""
        return {"labels": self.labels, "fields": self.fields, "everywhere": self.everywhere}


async def tables(client: Client, listing: Listing) -> None:
    """Print the server's columns; kinds with other columns get a table of their own."""
    merged: list[Row] = []
    titles: list[str] = []
    widths: list[int] = []
    version = ""
    for target in listing.targets:
        document = await client.table(target.plural, target.name, **({} if target.name else listing.selection))
        if listing.sort_by:
            await _sort(client, target, listing, document)
        these, rows = _columns(document, listing)
        if titles and these != titles:
            _print(titles, merged, widths, listing)
            printing.out("")
            merged, widths = [], []
        titles, merged = these, merged + rows
        version = str(document.get("metadata", {}).get("resourceVersion") or "")
    if merged or listing.watching:
        _print(titles, merged, widths, listing)
    else:
        printing.err("No objects found.")
    if not listing.watching:
        return
    target = listing.targets[0]
    async for event in client.watch(target.plural, since=version, name=target.name, table=True, **listing.selection):
        for line in printing.table([], _columns(event.object, listing)[1], widths):
            printing.out(line)


async def documents(client: Client, listing: Listing, show: Printer) -> None:
    """Print the objects as `show` turns them into text: one that was named as itself, else a List of all."""
    items: list[dict[str, Any]] = []
    version = ""
    for target in listing.targets:
        found, version = await _objects(client, target, listing)
        items += found
    if listing.sort_by:
        items.sort(key=_order(listing.sort_by))
    alone = len(listing.targets) == 1 and listing.targets[0].name
    if text := show(items[0] if alone else items):
        printing.out(text)
    if listing.watching:
        target = listing.targets[0]
        async for event in client.watch(target.plural, since=version, name=target.name, **listing.selection):
            printing.out(show(event.object))


async def _objects(client: Client, target: Target, listing: Listing) -> tuple[list[dict[str, Any]], str]:
    """The objects, and the version to watch from."""
    if target.name:
        item = await client.get(target.plural, target.name)
        return [item], str(item["metadata"].get("resourceVersion", ""))
    answer = await client.list(target.plural, **listing.selection)
    head = {"apiVersion": answer.get("apiVersion"), "kind": target.kind.__name__}
    return [head | item for item in answer["items"]], str(answer.get("metadata", {}).get("resourceVersion", ""))


async def _sort(client: Client, target: Target, listing: Listing, document: dict[str, Any]) -> None:
    """Order the rows of a table by a field of the objects, which tables do not hold."""
    items, _ = await _objects(client, target, listing)
    key = _order(listing.sort_by)
    place = {item["metadata"].get("uid"): i for i, item in enumerate(sorted(items, key=key))}
    # What is not in both is from between the two requests, and comes last.
    document["rows"].sort(key=lambda row: place.get(_metadata(row).get("uid"), len(place)))


def _order(path: str) -> Callable[[dict[str, Any]], tuple[int, Decimal, str]]:
    """Numbers by value, and amounts in text too; then other text; then objects without the field."""
    compiled = jsonpath.compile(path)

    def key(item: dict[str, Any]) -> tuple[int, Decimal, str]:
        text = compiled(item)
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_finite():
            return 0, number, ""
        return 1 if text else 2, Decimal(0), text

    return key


def _columns(document: dict[str, Any], listing: Listing) -> tuple[list[str], list[Row]]:
    """The titles and rows of a Table that are to be shown."""
    definitions = document.get("columnDefinitions") or []
    shown = [i for i, column in enumerate(definitions) if listing.wide or not column.get("priority")]
    titles = [str(definitions[i]["name"]) for i in shown]
    rows = []
    for row in document.get("rows") or []:
        cells = [row["cells"][i] for i in shown]
        if listing.everywhere:
            cells.insert(0, _metadata(row).get("namespace", ""))
        if listing.show_labels:
            labels = _metadata(row).get("labels") or {}
            cells.append(",".join(f"{key}={value}" for key, value in sorted(labels.items())))
        rows.append(cells)
    before, after = ["Project"] if listing.everywhere else [], ["Labels"] if listing.show_labels else []
    return [*before, *titles, *after], rows


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    return (row.get("object") or {}).get("metadata") or {}


def _print(titles: list[str], rows: list[Row], widths: list[int], listing: Listing) -> None:
    for line in printing.table(titles if listing.headers else [], rows, widths):
        printing.out(line)
