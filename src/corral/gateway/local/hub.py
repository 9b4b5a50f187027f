"""Weights from their official address, over HTTPS, resuming what an earlier attempt left."""

from pathlib import Path

import anyio
import httpx2
from anyio import to_thread

from corral.gateway.local.pins import Model
from corral.gateway.local.transfer import Progress, SourceFailed, require_space, size_of

# A hub that cannot be reached must not hold up the other source; a slow one may take its time.
_TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
_ATTEMPTS = 5


async def fetch(model: Model, target: Path, progress: Progress) -> None:
    """Write the model's file to `target`, continuing one that is there. Raises SourceFailed; what came is kept.

    A transfer that breaks is continued at once, as long as each attempt brings something, five times at most.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        before = await to_thread.run_sync(size_of, target)
        try:
            return await _attempt(model, target, before, progress)
        except SourceFailed:
            if attempt == _ATTEMPTS or await to_thread.run_sync(size_of, target) <= before:
                raise


async def _attempt(model: Model, target: Path, have: int, progress: Progress) -> None:
    if have == model.size:
        return
    source = httpx2.URL(model.url).host
    await to_thread.run_sync(require_space, target.parent, model.size - have)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if 0 < have < model.size else {})
    try:
        async with (
            httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=True) as client,
            client.stream("GET", model.url, headers=headers) as response,
        ):
            await _save(response, model, target, have, progress)
    except httpx2.HTTPError as error:
        raise SourceFailed(f"{source}: {error or type(error).__name__}") from error


async def _save(response: httpx2.Response, model: Model, target: Path, have: int, progress: Progress) -> None:
    source = httpx2.URL(model.url).host
    if response.status_code not in (200, 206):
        raise SourceFailed(f"{source} answered {response.status_code}")
    resumed = response.status_code == 206
    done = have if resumed else 0
    async with await anyio.open_file(target, "ab" if resumed else "wb") as file:
        progress("download", done, model.size, source)
        async for block in response.aiter_bytes():
            done += len(block)
            if done > model.size:
                raise SourceFailed(f"{source} sent more than the {model.size} bytes of {model.name}")
            await file.write(block)
            progress("download", done, model.size, source)
    if done != model.size:
        raise SourceFailed(f"{source} ended after {done} of {model.size} bytes")
