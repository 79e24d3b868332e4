"""Conversations with tools and a scripted model, alone and under a manager."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tool_loops import Stubborn

from simulacra.clock import use_clock
from simulacra.conversation import Conversation
from simulacra.testing import FakeClock, ScriptedProvider
from simulacra.workflows import WorkflowManager


@pytest.fixture
def jumping():
    """A clock that passes every wait by itself."""
    with use_clock(FakeClock(autojump=True)) as clock:
        yield clock


@pytest.fixture
def scripted():
    """Makes a conversation on a script: `conversation, provider = scripted(step, ..., toolkit=[...])`."""

    def make(*steps: Any, **options: Any) -> tuple[Conversation, ScriptedProvider]:
        provider = ScriptedProvider(steps, context_transformers=options.pop("transformers", ()))

        return Conversation(provider, **options), provider

    return make


@pytest.fixture
def managed(scripted):
    """Makes a managed conversation: `manager, provider = managed(step, ..., toolkit=[...], max_rounds=...)`."""
    own = {"toolkit", "system", "options", "when_busy", "policy", "transformers"}

    def make(*steps: Any, **options: Any) -> tuple[WorkflowManager, ScriptedProvider]:
        conversation, provider = scripted(*steps, **{key: value for key, value in options.items() if key in own})

        return (
            WorkflowManager(conversation, **{key: value for key, value in options.items() if key not in own}),
            provider,
        )

    return make


@pytest.fixture
async def group():
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()  # a test that failed leaves calls under way


@pytest.fixture
def stubborn():
    class Fresh(Stubborn):
        name = "stubborn"
        entered = anyio.Event()
        opened = anyio.Event()

    return Fresh
