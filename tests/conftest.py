"""Fixtures for every test: both event loops, and a clock that stands still until it is told to move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulacra.clock import use_clock
from simulacra.testing import FakeClock


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    clock = FakeClock()

    with use_clock(clock):
        yield clock
