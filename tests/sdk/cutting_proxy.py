"""A TCP proxy that cuts connections when the test says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream

from sdk.stub_server import serving


class Proxy:
    """Passes bytes on to `target`, an http URL that may change. `url` is its own."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._scopes: set[anyio.CancelScope] = set()
        self.url = ""
        self.swallow = 0
        """How many of the next answers are cut off before their first byte; their requests arrive."""
        self.cuts = 0

    async def cut(self) -> None:
        """Cut all connections."""
        for scope in self._scopes:
            scope.cancel()
        self.cuts += len(self._scopes)

    async def handle(self, client: SocketStream) -> None:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                to = urlsplit(self.target)
                async with client, await anyio.connect_tcp(to.hostname or "", to.port or 0) as server:
                    async with anyio.create_task_group() as group:
                        group.start_soon(self._copy, client, server, scope, False)
                        group.start_soon(self._copy, server, client, scope, True)
            except OSError:
                self.cuts += 1
            finally:
                self._scopes.discard(scope)

    async def _copy(self, source: SocketStream, to: SocketStream, scope: anyio.CancelScope, answers: bool) -> None:
        try:
            async for data in source:
                if answers and self.swallow:
                    self.swallow -= 1
                    self.cuts += 1
                    break
                await to.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        scope.cancel()


@asynccontextmanager
async def proxying(target: str) -> AsyncIterator[Proxy]:
    """A proxy of that server."""
    proxy = Proxy(target)
    async with serving(proxy.handle) as url:
        proxy.url = url
        yield proxy
