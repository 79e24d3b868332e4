"""Fixtures for every test: both event loops, and a clock that stands still until it is told to move."""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Iterator

import pytest

from simulacra.clock import use_clock
from simulacra.testing import FakeClock

END_SECONDS = 60
pytest.register_assert_rewrite("recordings")


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and hands that on to its own children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """A thread that waits for ever keeps the process from ending: show it and fail, rather than hang."""
    faulthandler.dump_traceback_later(END_SECONDS, exit=True, file=sys.__stderr__)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    clock = FakeClock()

    with use_clock(clock):
        yield clock
