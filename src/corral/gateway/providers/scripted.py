"""A provider in this process whose model follows a script: no service, no key, no cost.

`corral.gateway.script` says what it answers and which directives a prompt can carry.
"""

import anyio

from corral.gateway import frames, script
from corral.gateway.call import (
    FREE,
    Block,
    OnDelta,
    Price,
    Provider,
    ProviderSettings,
    Rejected,
    Reply,
    Request,
    Usage,
)


class Scripted:
    """Answers every model id, in the usual way `scripted/default`."""

    name = "scripted"

    async def call(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """The reply that the script tells. Raises Rejected when a directive cannot be read."""
        scene = script.scene(request.messages, request.tools)
        asked = [request.model, request.system, request.messages, [[t.name, t.schema] for t in request.tools]]
        key = script.request_key(asked)
        try:
            told = script.directives(scene.prompt)
            planned = script.plan(told, scene, key)
            usage = script.reported(told) or Usage(input=script.tokens(asked), output=script.spoken(planned))
            delay = float(told["delay"])
        except (ValueError, TypeError, AttributeError) as error:
            raise Rejected(f"a [[fake:...]] directive of the prompt cannot be read: {error}", status=400) from None
        await anyio.sleep(delay)
        text = frames.clean(planned.text)
        if on_delta and text:
            for piece in script.pieces(text):
                await on_delta(piece)
        return Reply(
            content=_content(text, planned.calls),
            stop="tool_use" if planned.calls else planned.stop,
            usage=None if told.get("no_usage") else usage,
            model=request.model,
        )

    def price(self, model: str) -> Price | None:
        """Nothing."""
        return FREE

    async def aclose(self) -> None:
        """Nothing to close."""


def create_provider(settings: ProviderSettings) -> Provider:
    """The provider `scripted`; it has no settings."""
    return Scripted()


def _content(text: str, calls: list[script.Call]) -> list[Block]:
    content: list[Block] = [{"type": "text", "text": text}] if text else []
    for call in calls:
        content.append(
            {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": frames.scrub(call.input)}
        )
    return content
