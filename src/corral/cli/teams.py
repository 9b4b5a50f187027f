"""The team of a run: its tasks as lines for people, and decisions about them."""

import uuid
from collections.abc import Iterator
from typing import Any

from corral.cli import printing
from corral.cli.failures import Failure
from corral.sdk import Client

_NEXT = {
    "ViewAnswer": "corral agentrun answer {run}",
    "SendMessage": 'corral agentrun send {run} "..."',
    "ManageTasks": "corral agentrun retry-task, redirect-task or cancel-task {run} TASK",
    "InspectRun": "corral describe agentrun/{run}",
}
"""What each action of the server's summary is here."""


async def view(client: Client, run: str) -> dict[str, Any]:
    """The server's view of the team."""
    document = (await client.request("GET", client.path("agentruns", run, "team"))).json()
    return document if isinstance(document, dict) else {}


async def control(client: Client, run: str, task: str, action: str, key: str, instruction: str) -> str:
    """Ask for `action` on a task, named by its name or id; the key that was used. Raises Failure for no such task."""
    items = (await view(client, run)).get("items") or []
    named = [item["id"] for item in items if task in (item["id"], item.get("name"))]
    if not named:
        known = ", ".join(str(item.get("name") or item["id"]) for item in items)
        fix = f"The tasks are {known}." if known else "The run has no team."
        raise Failure(f"there is no task {task!r} in agentrun/{run}", reason="NotFound", fix=fix)
    body = {"taskId": named[0], "action": action, "requestKey": key or str(uuid.uuid4())}
    if instruction:
        body["instruction"] = instruction
    headers = {"Idempotency-Key": body["requestKey"]}
    path = client.path("agentruns", run, "team-controls")
    receipt = (await client.request("POST", path, body=body, headers=headers)).json()
    return str(receipt.get("messageKey") or body["requestKey"])


def lines(run: str, team: dict[str, Any]) -> Iterator[str]:
    """The summary, a table of tasks, and what to do next."""
    summary, items = team.get("summary") or {}, team.get("items") or []
    yield ": ".join(filter(None, (summary.get("title"), summary.get("message")))) or "The run has no team."
    names = {item["id"]: item.get("name") or item["id"] for item in items}
    if items:
        yield ""
        yield from printing.table(
            ["Task", "State", "Attempt", "Waits for", "Progress"], [_row(i, names) for i in items]
        )
    if command := _NEXT.get(summary.get("action", ""), ""):
        yield f"Next: {command.format(run=run)}"


def _row(item: dict[str, Any], names: dict[str, str]) -> list[Any]:
    waits = [names.get(task, task) for task in item.get("waitingFor") or []]
    progress = item.get("progress") or item.get("waitReason") or item.get("assignment")
    return [names[item["id"]], item.get("state"), item.get("attempt"), waits or item.get("waitReason"), progress]
