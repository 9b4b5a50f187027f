"""Real sandboxes for tests, all of them ended afterwards."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.sandboxes import Driver, DriverSettings, Sandbox, SandboxSpec
from corral.sandboxes.drivers import bwrap, process
from sandboxes.boxes import SMALL


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an installation's sandboxes."""
    return tmp_path_factory.mktemp("sandboxes") / "home"


@pytest.fixture(scope="session")
def bwrap_driver(home: Path) -> Driver:
    return bwrap.create_driver(DriverSettings(directory=str(home)))


async def ended(driver: Driver) -> None:
    for name in [name async for name in driver.list()]:
        await driver.destroy(name)


@pytest.fixture
async def boxes(bwrap_driver: Driver) -> AsyncIterator[Driver]:
    """The bwrap driver; its sandboxes end with the test."""
    yield bwrap_driver
    await ended(bwrap_driver)


@pytest.fixture(params=["bwrap", "process"])
async def driver(request: pytest.FixtureRequest, bwrap_driver: Driver, tmp_path: Path) -> AsyncIterator[Driver]:
    """Each driver in turn."""
    settings = DriverSettings(directory=str(tmp_path), unsafe=True)
    made = bwrap_driver if request.param == "bwrap" else process.create_driver(settings)
    yield made
    await ended(made)


@pytest.fixture
async def box(boxes: Driver) -> Sandbox:
    """A bwrap sandbox."""
    return await boxes.create(SandboxSpec(id="box", limits=SMALL))
