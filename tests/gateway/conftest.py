"""What the gateway's tests share: both wires, providers at an address, and sockets for what no service would send."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from corral.gateway.call import Provider, ProviderSettings, Request, Tool
from corral.gateway.providers import anthropic, openai

_SHELL = Tool(
    "shell",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


@dataclass
class Raw:
    """A socket that answers every request with the same bytes and then closes or, with `keep`, waits."""

    url: str
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: int = 0


ServeRaw = Callable[..., AbstractAsyncContextManager[Raw]]
Connect = Callable[..., AbstractAsyncContextManager[Provider]]
Ask = Callable[..., Request]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["anthropic", "openai"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Both wires, one after the other."""
    return str(request.param)


@pytest.fixture
def key() -> str:
    """An API key that must turn up nowhere."""
    return "sk-canary-0123456789abcdef"


@pytest.fixture
def raw() -> ServeRaw:
    """`async with raw(answer) as service`."""
    return _raw


@pytest.fixture
def connect(dialect: str, key: str) -> Connect:
    """`async with connect(url, read_timeout=20.0) as provider`."""
    create = {"anthropic": anthropic.create_provider, "openai": openai.create_provider}[dialect]

    @asynccontextmanager
    async def connected(url: str, read_timeout: float = 20.0) -> AsyncIterator[Provider]:
        made = create(ProviderSettings(api_key=key, base_url=url, read_timeout=read_timeout))
        try:
            yield made
        finally:
            await made.aclose()

    return connected


@pytest.fixture
def ask() -> Ask:
    """`ask(text, model="m")`: a request with one prompt and the shell tool."""

    def asking(text: str, model: str = "m") -> Request:
        messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
        return Request(model=model, system="You work.", messages=messages, tools=[_SHELL], max_tokens=1000)

    return asking


@asynccontextmanager
async def _raw(answer: bytes, *, keep: bool = False) -> AsyncIterator[Raw]:
    """Serve these bytes."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                seen.requests.append(head + await reader.readexactly(size))
                writer.write(answer)
                await writer.drain()
                if not keep:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            seen.closed += 1

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    seen = Raw(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        yield seen
