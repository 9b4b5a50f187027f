"""What the HTTP API costs: creating runs, reading one, and listing them, at 1,000 and at 10,000 runs.

A server in a process of its own, on SQLite with full durability and without workers, so that only the API is measured.
Judged is the time of a page of 100 runs at 10,000, in itself and as a ratio to that at 1,000: it must not grow with the
collection. Usage: python benchmarks/api.py [RUNS]
"""

import asyncio
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import uvicorn

from corral.api.app import create_app
from corral.base import ids
from corral.gateway.call import ProviderSettings
from corral.gateway.providers import scripted
from corral.gateway.router import Gateway
from corral.store.sqlite import open_sqlite
from corral.store.vault import Vault
from corral.verbs.services import Services

KEY = "benchmark"
PAGE_MS = 20.0
"""A page of 100 runs takes at most so long at the full size."""
GROWTH = 2.0
"""And at most so many times as long as at a tenth of the size."""
PARALLEL = 10
PROJECT = "/apis/nodus.dev/v1/namespaces/default"


async def serve(home: Path) -> None:
    """The server's process: it prints its URL and serves until it is ended."""
    async with open_sqlite(home / "corral.db") as store:
        gateway = Gateway({"scripted": scripted.create_provider(ProviderSettings())}, "scripted/default")
        services = Services(store, gateway, Vault(home / "vault.key"))
        app = create_app(services, key_digest=ids.digest(KEY.encode()), loopback=True)
        with socket.create_server(("127.0.0.1", 0)) as sock:
            # As the real server does: a small answer must not wait for the client's delayed ACK.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
            config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
            await uvicorn.Server(config).serve([sock])


async def create(client: httpx2.AsyncClient, first: int, last: int) -> float:
    """Runs a second, for runs number `first` to `last`."""
    numbers = iter(range(first, last))

    async def some() -> None:
        for number in numbers:
            spec = {"agent": "worker", "input": f"task {number}"}
            run = {"kind": "AgentRun", "metadata": {"name": f"run-{number:06}"}, "spec": spec}
            (await client.post(f"{PROJECT}/agentruns", json=run)).raise_for_status()

    begun = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(PARALLEL)))
    return (last - first) / (time.perf_counter() - begun)


async def lower_ms(act: Callable[[], Awaitable[httpx2.Response]], times: int) -> float:
    """The lower quartile of a request's time in ms: what it takes when nothing else disturbs it."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        (await act()).raise_for_status()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.quantiles(taken, n=4)[0]


async def measure(client: httpx2.AsyncClient, first: int, last: int) -> dict[str, float]:
    """The figures once there are `last` runs."""
    runs = f"{PROJECT}/agentruns"
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    created = await create(client, first, last)
    one = await lower_ms(lambda: client.get(f"{runs}/run-{last // 2:06}"), 50)
    page = await lower_ms(lambda: client.get(runs, params={"limit": 100}), 30)
    drawn = await lower_ms(lambda: client.get(runs, params={"limit": 100}, headers=table), 30)
    large = await lower_ms(lambda: client.get(runs, params={"limit": 500}), 10)
    whole = await lower_ms(lambda: client.get(runs), 5)
    return {"create/s": created, "get": one, "page 100": page, "table 100": drawn, "page 500": large, "whole": whole}


async def drive(url: str, runs: int) -> list[tuple[int, dict[str, float]]]:
    """Measure at a tenth and at the whole number of runs."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=120) as client:
        agent = {"kind": "Agent", "metadata": {"name": "worker"}, "spec": {}}
        (await client.post(f"{PROJECT}/agents", json=agent)).raise_for_status()
        few = runs // 10
        return [(few, await measure(client, 0, few)), (runs, await measure(client, few, runs))]


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
        command = [sys.executable, __file__, "--server", home]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                rows = asyncio.run(drive(server.stdout.readline().strip(), runs))
            finally:
                server.terminate()
                server.wait()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (usage.ru_utime + usage.ru_stime) / runs * 1000
    names = list(rows[0][1])
    print("runs".rjust(8), *(name.rjust(10) for name in names))
    for count, figures in rows:
        print(str(count).rjust(8), *(f"{figures[name]:.1f}".rjust(10) for name in names))
    print(
        "all but create/s in ms, lower quartiles; the server's CPU is",
        f"{cpu:.2f} ms for each run, all requests included",
    )
    small, full = rows[0][1], rows[1][1]
    growth = full["page 100"] / small["page 100"]
    result = f"page_ms={full['page 100']:.2f} page_growth={growth:.2f} create_per_s={full['create/s']:.0f}"
    print(f"RESULT {result} server_cpu_ms_per_run={cpu:.2f} runs={runs}")
    return 0 if full["page 100"] <= PAGE_MS and growth <= GROWTH else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--server"]:
        asyncio.run(serve(Path(sys.argv[2])))
    else:
        sys.exit(main())
