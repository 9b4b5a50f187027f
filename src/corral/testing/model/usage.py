"""The tokens that the double reports: deterministic, with a simulated prompt cache.

A request whose cached blocks repeat those of an earlier request, from the first on, reads them; what is new of them it
writes. So cost accounting can be tested without a service.
"""

import hashlib
import json
import re
from typing import Any

from corral.gateway import script
from corral.gateway.call import Usage

_MARK = re.compile(r',?"cache_control":\{[^{}]*\}')


class PromptCache:
    """Every prefix that was cached, by digest."""

    def __init__(self) -> None:
        self._prefixes: set[str] = set()

    def count(self, model: str, blocks: list[Any], cached: int, output: int, *, reports_writes: bool) -> Usage:
        """The usage of a request of these blocks, of which the first `cached` are kept."""
        texts = [_MARK.sub("", json.dumps(block, ensure_ascii=False, separators=(",", ":"))) for block in blocks]
        sizes = [script.tokens(text) for text in texts]
        digest = hashlib.sha256(model.encode())
        prefixes: list[str] = []
        read = 0
        for i, text in enumerate(texts[:cached]):
            digest.update(text.encode("utf-8", "surrogatepass"))
            prefixes.append(digest.hexdigest())
            if prefixes[-1] in self._prefixes:
                read = sum(sizes[: i + 1])
        self._prefixes.update(prefixes)
        written = sum(sizes[:cached]) - read if reports_writes else 0
        return Usage(input=sum(sizes) - read - written, cache_read=read, cache_write=written, output=output)
