"""A server in this process: everything is opened in order, and closed in the opposite one."""

import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import uvicorn
from starlette.applications import Starlette

from corral.agents.job import PROGRAM
from corral.api.app import create_app
from corral.base import ids, plugins
from corral.controllers.agentrun import AgentRuns
from corral.durable.worker import Worker
from corral.gateway.router import Gateway
from corral.sandboxes import Driver, DriverSettings, SandboxError, drivers
from corral.store import Store, executions
from corral.store.vault import Vault, VaultError
from corral.verbs.services import Services

from . import models, seeds, state
from .settings import CannotStart, Settings

log = logging.getLogger(__name__)

_CLOSING_SECONDS = 2
"""How long open streams may take to notice that the server ends."""


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    url: str
    key: str
    notes: list[str]
    """Lines for the user: which model was chosen and why, and what else is worth knowing."""


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    """A server, as long as the block lasts. Raises CannotStart.

    At the end, claimed runs are given back for the next server; their sandboxes live on for it.
    """
    async with contextlib.AsyncExitStack() as stack:
        store, home, notes = await stack.enter_async_context(state.open_state(settings))
        vault = _vault(home)
        gateway, chosen = models.open_gateway(settings)
        stack.push_async_callback(_closed, gateway)
        driver = await _driver(settings, home)
        notes += chosen + await models.prepare(gateway, settings) + await _unfinished(store, settings)
        sock = _listen(settings)
        stack.callback(sock.close)
        key = state.passing_key() if settings.only_own_runs else state.lasting_key(home)
        services = Services(store, gateway, vault)
        await seeds.seed(services)
        app = create_app(services, key_digest=ids.digest(key.encode()), loopback=_is_loopback(settings.host))
        url = f"http://{_authority(settings.host)}:{sock.getsockname()[1]}"
        async with _serving(app, sock, store), _working(settings, AgentRuns(store, gateway, driver, vault)):
            if not settings.only_own_runs:
                stack.callback(state.write_server_file(home, url, key).unlink, missing_ok=True)
            yield Running(url, key, notes)


@asynccontextmanager
async def _working(settings: Settings, runs: AgentRuns) -> AsyncIterator[None]:
    since = time.time_ns() if settings.only_own_runs else 0
    worker = Worker(runs.store, {PROGRAM: runs}, since=since)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.run)
        tasks.start_soon(runs.sweep_for_ever)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """Signals are the caller's business: it ends the block."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _serving(app: Starlette, sock: socket.socket, store: Store) -> AsyncIterator[None]:
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=_CLOSING_SECONDS
    )
    server = _Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [sock])
        try:
            yield
        finally:
            store.announce_closing()
            server.should_exit = True


async def _driver(settings: Settings, home: Path) -> Driver:
    name = "process" if settings.unsafe else "bwrap"
    directory = home / "sandboxes"
    try:
        driver: Driver = plugins.load(drivers, name).create_driver(
            DriverSettings(directory=str(directory), unsafe=settings.unsafe)
        )
    except SandboxError as error:
        raise CannotStart(str(error)) from error
    probe = await driver.probe()
    if not probe.works:
        raise CannotStart(f"commands cannot be isolated here: {probe.detail}", probe.remedy)
    return driver


async def _closed(gateway: Gateway) -> None:
    with anyio.CancelScope(shield=True):
        await gateway.aclose()


def _vault(home: Path) -> Vault:
    try:
        return Vault(home / "vault.key")
    except VaultError as error:
        raise CannotStart(str(error)) from error


async def _unfinished(store: Store, settings: Settings) -> list[str]:
    async with store.read() as conn:
        left = await executions.unfinished(conn, PROGRAM)
    if not left:
        return []
    what = "continued by the next `corral up`" if settings.only_own_runs else "continued now"
    return [f"runs     {len(left)} unfinished from before: {what}"]


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by accepted sockets: without it, each small answer waits for the client's delayed ACK.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        fix = "Choose another with --port, or end what listens there."
        raise CannotStart(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}", fix) from error
    return sock


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _authority(host: str) -> str:
    return f"[{host}]" if ":" in host else host
