"""Sequences that the state machine in tests/property, or the search for it, found to go wrong: reduced, one test each."""

from __future__ import annotations

import anyio
import pytest

from simulacra.conversation import Conversation
from simulacra.events import StateChange
from simulacra.testing import FakeClock, ScriptedProvider, delay, reply

pytestmark = pytest.mark.anyio


async def test_conv_21_dispose_settles_those_who_had_just_got_the_floor_together(fake_clock: FakeClock):
    conversation = Conversation(ScriptedProvider([reply(chunks=["a", delay(1), "b"])]), when_busy="merge")
    outcomes = {}

    async def ask(text: str) -> None:
        outcomes[text] = await conversation.prompt(text)

    async def dispose(event: StateChange) -> None:
        if event.current == "idle":  # the floor is granted to "two" and "three", and not yet taken up
            await conversation.aclose()

    conversation.on(StateChange, dispose)

    async with anyio.create_task_group() as tasks:
        for text in ("one", "two", "three"):
            tasks.start_soon(ask, text)
            await fake_clock.advance(0)

        conversation.cancel_response()

    assert [outcomes[text].stop_details for text in ("two", "three")] == ["disposed", "disposed"]
    queued, dropped = (
        [entry.body["input_id"] for entry in conversation.journal.entries(kinds={kind})]
        for kind in ("input_queued", "input_dropped")
    )
    assert dropped == queued
