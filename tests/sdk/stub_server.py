"""A server on a real socket whose answers the test writes, byte by byte."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream


@dataclass
class Received:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Stub:
    """What the next requests get, in order; the last answer is repeated. None closes the connection without one."""

    url: str = ""
    answers: list[bytes | None] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)

    def next(self) -> bytes | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def answer(status: str, body: bytes | str = b"", *headers: str) -> bytes:
    """A whole HTTP answer."""
    content = body.encode() if isinstance(body, str) else body
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", "Connection: close", *headers])
    return head.encode() + b"\r\n\r\n" + content


def beginning(body: bytes | str) -> bytes:
    """A streamed answer that the server breaks off: no length, and the connection ends after these bytes."""
    content = body.encode() if isinstance(body, str) else body
    return (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + f"{len(content):x}\r\n".encode() + content + b"\r\n"
    )


async def read_request(stream: SocketStream) -> Received:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in rest)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive()
    method, target, _ = first.split(" ")
    return Received(method, target, headers, body)


@asynccontextmanager
async def serving(handle: Callable[[SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, handle)
        port = listener.extra(SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()
