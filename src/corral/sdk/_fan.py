"""Many runs at a time: a bounded number of workers, and their outcomes as they come or in order."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from .client import Client as AsyncClient
from .errors import CorralError

Outcome = str | CorralError
Ready = Callable[[], Awaitable[AsyncClient]]
Spec = Mapping[str, Any]
Work = Callable[[AsyncClient, Spec], Awaitable[Outcome]]


async def gather(
    ready: Ready, work: Work, specs: Sequence[Spec], *, max_active: int, ordered: bool
) -> AsyncGenerator[Outcome]:
    """The outcome for each spec of a run. It ends the work that is left when it is closed."""
    if not specs:
        return
    core = await ready()
    left = iter(enumerate(specs))
    send, receive = anyio.create_memory_object_stream[tuple[int, Outcome]](0)

    async def worker(done: MemoryObjectSendStream[tuple[int, Outcome]]) -> None:
        async with done:
            for index, spec in left:
                await done.send((index, await work(core, spec)))

    async with receive, anyio.create_task_group() as group:
        async with send:
            for _ in range(min(max_active, len(specs))):
                group.start_soon(worker, send.clone())
        waiting: dict[int, Outcome] = {}
        following = 0
        async for index, outcome in receive:
            waiting[index] = outcome
            try:
                while (key := following if ordered else index) in waiting:
                    following += 1
                    yield waiting.pop(key)
            except GeneratorExit:
                # Out of the group by its cancellation, as it would wrap an exception that passes it in a group.
                group.cancel_scope.cancel()
                break
