"""The bench that the durable core is tested on."""

import pytest

from bench import Bench
from corral.store import Store


@pytest.fixture
def bench(store: Store) -> Bench:
    return Bench(store)
