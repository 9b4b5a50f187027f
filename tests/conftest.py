"""What tests of all rooms share: the event loop's kind, and a store on each database."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.sandboxes import DriverSettings
from corral.sandboxes.drivers.bwrap import create_driver
from corral.store import Store
from corral.store.postgres import open_postgres
from corral.store.sqlite import open_sqlite
from postgres import Server


@dataclass(frozen=True)
class Place:
    """An own, migrated database of a test. `address` is a path or a URL."""

    dialect: str
    address: str

    def open(self) -> Store:
        """A store on it, not started yet."""
        return open_sqlite(self.address) if self.dialect == "sqlite" else open_postgres(self.address)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    yield from _server()


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A Postgres that the test may stop."""
    yield from _server()


def _server() -> Iterator[Server]:
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session", autouse=True)
def sandboxes_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sandboxes outlive the platform that made them, so those of failed tests would outlive the tests."""
    yield
    for directory in tmp_path_factory.getbasetemp().rglob("sandboxes"):
        if directory.is_dir() and "workspace" not in directory.parts:
            asyncio.run(_destroy_all(directory))


async def _destroy_all(directory: Path) -> None:
    driver = create_driver(DriverSettings(directory=str(directory)))
    async for sandbox in driver.list():
        await driver.destroy(sandbox)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place("sqlite", str(tmp_path / "store" / "corral.db"))
    return Place("postgres", request.getfixturevalue("postgres").database())


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    async with place.open() as store:
        yield store
