"""As much of HTTP/1.1 as the double needs: requests with a body, plain and chunked answers, and broken ones."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

LIMIT = 64 << 20
"""Bytes of the head or of the body of a request."""


@dataclass(frozen=True)
class Request:
    """One request."""

    method: str
    path: str
    """Begins with a slash and does not end with one."""
    query: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Connection:
    """One client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self) -> Request | None:
        """The next request; None when the client has gone or does not speak HTTP."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ", 2)
            split = (line.partition(":") for line in lines if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in split}
            if headers.get("expect", "").lower() == "100-continue":
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await self._body(headers)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            return None
        path, _, query = target.partition("?")
        return Request(method, "/" + path.strip("/"), query, headers, body)

    async def answer(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """A whole response; `body` is bytes or a JSON value."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "text/html" if data.startswith(b"<") else "application/json"
        fixed = {"content-type": kind, "content-length": str(len(data)), "request-id": "req_fake"}
        self._writer.write(_head(status, {**fixed, **(headers or {})}) + data)
        await self._writer.drain()

    async def begin_stream(self) -> None:
        """The head of a stream of events."""
        fixed = {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"}
        self._writer.write(_head(200, {**fixed, "request-id": "req_fake"}))
        await self._writer.drain()

    async def chunk(self, text: str) -> None:
        """A chunk of the stream; an empty text ends it."""
        data = text.encode()
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def half(self, body: bytes) -> None:
        """A response whose head promises all of the body and that ends in the middle of it."""
        fixed = {"content-type": "application/json", "content-length": str(len(body))}
        self._writer.write(_head(200, fixed) + body[: len(body) // 2])
        await self._writer.drain()

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        while await self._reader.read(4096):
            pass

    def close(self) -> None:
        """Close; what was written is sent first."""
        self._writer.close()

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length") or 0))
        body = b""
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        return body


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
