"""A whole server in a test's own process, and a client of it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2

from corral import serve

PROJECT = "/apis/nodus.dev/v1/namespaces/default"


@dataclass
class House:
    """A server in this process, and a client of it."""

    client: httpx2.AsyncClient
    home: Path

    async def post(self, plural: str, document: Any, **options: Any) -> httpx2.Response:
        return await self.client.post(f"{PROJECT}/{plural}", json=document, **options)

    async def follow(self, name: str) -> list[dict[str, Any]]:
        events = []
        with anyio.fail_after(60):
            async with self.client.stream("GET", f"{PROJECT}/agentruns/{name}/steps?follow=true") as stream:
                async for line in stream.aiter_lines():
                    events.append(json.loads(line))
        return events

    async def patch(self, path: str, change: Mapping[str, Any]) -> httpx2.Response:
        return await self.client.patch(
            f"{PROJECT}/{path}",
            content=json.dumps(change),
            headers={"Content-Type": "application/merge-patch+json"},
        )

    async def agent(self, name: str = "helper", **spec: Any) -> None:
        created = await self.post("agents", {"kind": "Agent", "metadata": {"name": name}, "spec": spec})
        assert created.status_code in (200, 201), created.text

    async def run(self, prompt: Any, name: str = "", **spec: Any) -> httpx2.Response:
        """Create a run of the agent `helper`."""
        metadata = {"name": name} if name else {"generateName": "run-"}
        document = {"kind": "AgentRun", "metadata": metadata, "spec": {"agent": "helper", "input": prompt, **spec}}
        return await self.post("agentruns", document)

    async def finished(self, prompt: Any, **spec: Any) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
        """Run the agent `helper` to the end: status, steps, answer."""
        created = await self.run(prompt, **spec)
        assert created.status_code == 201, created.text
        name = created.json()["metadata"]["name"]
        status = (await self.follow(name))[-1]["object"]["status"]
        steps = (await self.client.get(f"{PROJECT}/agentruns/{name}/steps")).json()["items"]
        answer = await self.client.get(f"{PROJECT}/agentruns/{name}/answer")
        return status, steps, answer.text if answer.status_code == 200 else ""


@asynccontextmanager
async def house(home: Path, database: str | None = None, model: str = "scripted/default") -> AsyncIterator[House]:
    """A server with the scripted model, or another default one; `database` is a Postgres URL."""
    async with serve.running(serve.Settings(home=home, model=model or None, database=database)) as server:
        async with httpx2.AsyncClient(
            base_url=server.url, headers={"Authorization": f"Bearer {server.key}"}, trust_env=False, timeout=60
        ) as client:
            yield House(client, home)
