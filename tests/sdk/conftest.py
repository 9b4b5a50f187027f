"""Fixtures for tests of the client: a stub server, a port where nobody listens, and a whole server."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.from_thread import start_blocking_portal

from corral.sdk import _background
from corral.sdk._find import Server
from house import house
from sdk.stub_server import Stub, read_request, serving

VARIABLES = (
    "CORRAL_CONTEXT",
    "CORRAL_URL",
    "CORRAL_KEY",
    "CORRAL_PROJECT",
    "NODUS_API_URL",
    "NODUS_API_KEY",
    "NODUS_PROJECT",
)


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


@pytest.fixture(scope="session")
def whole_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the scripted model, on a loop of its own, so that calls that block do not block it."""
    home = tmp_path_factory.mktemp("house")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(house(home)):
        record = json.loads((home / "server.json").read_text(encoding="utf-8"))
        yield Server(record["url"], record["key"])
    _background.close()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that names no server, of somebody who has logged in nowhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def server(whole_server: Server, bare: pytest.MonkeyPatch) -> Server:
    """The whole server, as the environment's."""
    bare.setenv("CORRAL_URL", whole_server.url)
    bare.setenv("CORRAL_KEY", whole_server.key)
    return whole_server
