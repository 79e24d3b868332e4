"""Calls under way beside the test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import TaskGroup
from conversation_kit import Asking

from simulacra.testing import FakeClock


@pytest.fixture
async def ask(fake_clock: FakeClock) -> AsyncIterator[Asking]:
    async with anyio.create_task_group() as tasks:
        yield Asking(tasks, fake_clock)
        tasks.cancel_scope.cancel()


@pytest.fixture
async def group() -> AsyncIterator[TaskGroup]:
    """Tasks beside the test; what is left of them is cancelled when it ends."""
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()
