"""Objects of the server as programs read them: dictionaries whose fields are attributes too."""

from collections.abc import Mapping
from typing import Any


class View(dict[str, Any]):
    """A JSON object. `view.cost.total_usd` is `view["cost"]["totalUSD"]`; the names on the wire work as well.

    A field that is not there raises AttributeError, as servers leave out what is not known yet; `view.get("answer")`
    asks without that. Where a field has the name of a dictionary's method, such as `items`, use brackets.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        key = name if name in self else next((key for key in self if _plain(key) == _plain(name)), None)
        if key is None:
            raise AttributeError(f"there is no field {name!r} here; there are {', '.join(self) or 'none'}")
        return view(self[key])


def view(value: Any) -> Any:
    """The value with every JSON object in it as a View."""
    if isinstance(value, View):
        return value
    if isinstance(value, Mapping):
        return View({key: view(item) for key, item in value.items()})
    return [view(item) for item in value] if isinstance(value, list) else value


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
