"""Fixtures for tests of the client: a stub server, and a port where nobody listens."""

import socket
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest
from anyio.abc import SocketStream

from sdk.stub_server import Stub, read_request, serving


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    found = Stub()

    async def handle(stream: SocketStream) -> None:
        async with stream:
            try:
                found.received.append(await read_request(stream))
                reply = found.next()
                if reply is not None:
                    await stream.send(reply)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return

    async with serving(handle) as url:
        found.url = url
        yield found


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port of this machine where nobody listens; it is held, so that nobody begins to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
