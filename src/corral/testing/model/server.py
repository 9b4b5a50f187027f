"""The double's server: model calls, and what tests ask about them.

POST /v1/messages           Anthropic Messages
POST /v1/chat/completions   OpenAI Chat Completions
GET  /v1/models, /healthz
GET  /stats                 counters: requests, statuses, peak_concurrency, tokens; `duplicates` is the number of
                            identical model calls that were answered to the end more than once
GET  /requests?full=1       the last 2,000 requests: time, api, hash, step, attempt, status (and the body)
POST /reset                 forgets counters, requests, attempts and the prompt cache
POST /rules                 [{"match": "pattern on the prompt", "script": {...}}] replaces the rules
"""

import asyncio
import json
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, cast

from corral.gateway import script

from . import wire_anthropic, wire_openai
from .connection import LIMIT, Connection, Request
from .script import Rules, faults
from .usage import PromptCache
from .wires import Answer, Wire

_WIRES: dict[str, tuple[str, Wire]] = {
    "/messages": ("messages", cast("Wire", wire_anthropic)),
    "/chat/completions": ("chat", cast("Wire", wire_openai)),
}
_CALL_FIELDS = ("model", "system", "messages", "tools")
_MESSAGES = {429: "This request would exceed your rate limit", 529: "Overloaded"}
_PROXY_PAGE = b"<html><body><h1>The server is not available</h1></body></html>"
_MODELS = ("claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "gpt-4.1-mini", "fake")


class _Broken(Exception):
    """The connection must be closed, because a fault says so."""


class _Records:
    """What was asked and answered since the start or the last reset."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.completed: Counter[str] = Counter()
        self.cache = PromptCache()
        self.requests: deque[dict[str, Any]] = deque(maxlen=2000)
        self.active = self.peak = 0

    def refused(self, row: dict[str, Any], status: int) -> None:
        """Note that this request got an error."""
        row["status"] = status
        self.counts[f"status_{status}"] += 1

    def stats(self) -> dict[str, Any]:
        """What GET /stats answers."""
        return {
            "uptime_s": round(time.monotonic() - self.started, 3),
            "active": self.active,
            "peak_concurrency": self.peak,
            "counts": dict(self.counts),
            "tokens": dict(self.tokens),
            "distinct_ok": len(self.completed),
            "duplicates": sum(times - 1 for times in self.completed.values()),
        }


class ModelServer:
    """One server with its rules and records."""

    def __init__(self, **defaults: Any) -> None:
        """`defaults` are directives that hold where a prompt says nothing, such as `delay=0.1`."""
        self._rules = Rules(defaults)
        self._records = _Records()
        self._tasks: set[asyncio.Task[Any]] = set()

    def replace_rules(self, rules: Sequence[Mapping[str, Any]]) -> int:
        """Take these rules, as POST /rules does; returns how many there are."""
        return self._rules.replace(rules)

    @asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Serve until the block ends, then drop all connections; gives the URL."""
        server = await asyncio.start_server(self._connected, host, port, limit=LIMIT, backlog=1024)
        try:
            yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            while request := await connection.receive():
                await self._serve(request, connection)
                if request.headers.get("connection", "").lower() == "close":
                    break
        except (_Broken, ConnectionError, asyncio.CancelledError):
            # The client went away, a fault closes the connection, or the server ends: the task ends in each case.
            return
        finally:
            self._tasks.discard(task)
            connection.close()

    async def _serve(self, request: Request, connection: Connection) -> None:
        if request.method == "HEAD":
            await connection.answer(200, b"")
            return
        if request.method == "GET":
            await connection.answer(200, self._look(request))
            return
        if request.path == "/reset":
            self._records = _Records()
            await connection.answer(200, {"ok": True})
            return
        try:
            body = json.loads(request.body or b"{}")
            if request.path == "/rules":
                await connection.answer(200, {"rules": self.replace_rules(body)})
                return
        except (ValueError, KeyError, TypeError, re.error) as error:
            await connection.answer(400, wire_anthropic.error(400, f"the body cannot be read: {error}"))
            return
        for ending, (api, wire) in _WIRES.items():
            if request.path.endswith(ending):
                await self._model_call(api, wire, body, connection)
                return
        await connection.answer(404, wire_anthropic.error(404, f"no such path: {request.path}"))

    def _look(self, request: Request) -> Any:
        if request.path == "/stats":
            return self._records.stats()
        if request.path == "/requests":
            hidden = () if "full=1" in request.query else ("body",)
            return [{key: row[key] for key in row if key not in hidden} for row in self._records.requests]
        if request.path.endswith("/models"):
            return {"object": "list", "data": [{"id": name, "object": "model"} for name in _MODELS], "has_more": False}
        return {"ok": True}

    async def _model_call(self, api: str, wire: Wire, body: dict[str, Any], connection: Connection) -> None:
        records = self._records
        records.active += 1
        records.peak = max(records.peak, records.active)
        records.counts["requests"] += 1
        row: dict[str, Any] = {"t": round(time.monotonic() - records.started, 4), "api": api, "status": 200}
        records.requests.append(row)
        try:
            try:
                call = _ModelCall(records, wire, body, row, self._rules)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                records.refused(row, 400)
                await connection.answer(400, wire.error(400, f"the request cannot be read: {error}"))
                return
            await call.run(connection)
        finally:
            records.active -= 1


class _ModelCall:
    """One attempt at one model call."""

    def __init__(self, records: _Records, wire: Wire, body: dict[str, Any], row: dict[str, Any], rules: Rules) -> None:
        """Decide what is answered. Raises ValueError and the like when the request or a directive is malformed."""
        self._records, self._wire, self._body, self._row = records, wire, body, row
        self._same = {name: body.get(name) for name in _CALL_FIELDS}
        self._key = script.request_key(self._same)
        records.attempts[self._key] += 1
        self._attempt = records.attempts[self._key]
        scene = wire.scene(body)
        row |= {"hash": self._key[:16], "attempt": self._attempt, "step": scene.step}
        row |= {"prompt": scene.prompt[:200], "model": body.get("model"), "body": body}
        self._told = rules.directives(scene.prompt)
        self._faults = faults(self._told, scene.step, self._attempt)
        self._planned = script.plan(self._told, scene, self._key)
        self._reported = script.reported(self._told)

    async def run(self, connection: Connection) -> None:
        """Answer, or fail as the directives say."""
        faults, counts = self._faults, self._records.counts
        if faults.hang:
            counts["hang"] += 1
            await connection.gone()
            raise _Broken
        await asyncio.sleep(faults.delay)
        if faults.drop:
            counts["dropped"] += 1
            raise _Broken
        if faults.status:
            await self._refuse(connection, faults.status, _MESSAGES.get(faults.status, "scripted failure"))
            return
        if faults.context and (size := script.tokens(self._same)) > faults.context:
            await self._refuse(connection, 400, f"prompt is too long: {size} tokens > {faults.context} maximum")
            return
        answer = self._answer()
        send = self._stream if self._body.get("stream") else self._whole
        await send(answer, connection)
        counts["ok"] += 1
        counts["tool_replies" if self._planned.calls else "answers"] += 1
        self._records.completed[self._key] += 1

    async def _refuse(self, connection: Connection, status: int, message: str) -> None:
        self._records.refused(self._row, status)
        body = _PROXY_PAGE if self._faults.plain else self._wire.error(status, message)
        await connection.answer(status, body, self._faults.error_headers)

    def _answer(self) -> Answer:
        blocks, cached = self._wire.blocks(self._body), self._wire.cached_blocks(self._body)
        model = str(self._body.get("model") or "fake")
        spoken, counts_writes = script.spoken(self._planned), self._row["api"] == "messages"
        usage = self._records.cache.count(model, blocks, cached, spoken, reports_writes=counts_writes)
        usage = self._reported or usage
        self._records.tokens.update(asdict(usage))
        shown = None if self._told.get("no_usage") else usage
        identity = f"{self._key[:20]}{self._attempt:04d}"
        return Answer(model, identity, self._planned, shown, self._faults.bad_json and bool(self._planned.calls))

    async def _whole(self, answer: Answer, connection: Connection) -> None:
        data = json.dumps(self._wire.whole(answer)).encode()
        if self._faults.broken:
            await connection.half(data)
            raise _Broken
        await connection.answer(200, data)

    async def _stream(self, answer: Answer, connection: Connection) -> None:
        events, broken = self._wire.events(answer, self._body), self._faults.broken
        if broken:
            events = events[: len(events) // 2]
        if broken == "stream_error":
            error = self._wire.error(529, "Overloaded in the middle of the answer")
            events.append(f"event: error\ndata: {json.dumps(error)}\n\n")
        if broken == "bad_frame":
            events.append('data: {"type": "content_block_del\n\n')
        await connection.begin_stream()
        for text in events if self._faults.drip or broken else ["".join(events)]:
            await connection.chunk(text)
            await asyncio.sleep(self._faults.drip)
        if broken:
            raise _Broken
        await connection.chunk("")


@asynccontextmanager
async def serve_model(host: str = "127.0.0.1", port: int = 0, **defaults: Any) -> AsyncIterator[str]:
    """A scripted model service in the running event loop; gives its URL. Keyword arguments are default directives."""
    async with ModelServer(**defaults).listening(host, port) as url:
        yield url
