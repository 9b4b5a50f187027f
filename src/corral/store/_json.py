"""JSON as it is stored: compact, in the order of the caller's keys, and ASCII.

ASCII because a text column of Postgres takes neither NUL nor half of a surrogate pair; escaped, both come back as they
were.
"""

import json
from typing import Any


def dumps(value: Any) -> str:
    """The JSON text. Raises ValueError for NaN and infinities, TypeError for what is not JSON."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def loads(text: str) -> Any:
    """The value that `dumps` wrote."""
    return json.loads(text)
