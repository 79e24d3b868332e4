"""Doubles for policies: a function that follows a list of outcomes, and something that has to be closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simulacra.cancellation import CancellationTokenSource
from simulacra.clock import use_clock
from simulacra.testing import FakeClock


class Outcomes:
    """An async function that raises or returns one outcome per call and counts its calls."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[tuple[Any, ...]] = []

    async def __call__(self, *args: Any) -> Any:
        self.calls.append(args)
        outcome = self.outcomes[min(len(self.calls), len(self.outcomes)) - 1]

        if isinstance(outcome, BaseException):
            raise outcome

        return outcome


class Closable:
    """A stand-in for a stream."""

    def __init__(self) -> None:
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1


@pytest.fixture
def outcomes() -> type[Outcomes]:
    return Outcomes


@pytest.fixture
def closable() -> Closable:
    return Closable()


@pytest.fixture
def source() -> CancellationTokenSource:
    return CancellationTokenSource()


@pytest.fixture
def jumping() -> Iterator[FakeClock]:
    """A clock that passes every wait by itself."""
    clock = FakeClock(autojump=True)

    with use_clock(clock):
        yield clock
