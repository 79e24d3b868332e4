"""Sequences that the state machine in tests/property, or the search for it, found to go wrong: reduced, one test each."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import sketch
from dealt_replies import PAUSE, Slow, Stubborn
from sendable import request_faults

from simulacra.conversation import Conversation
from simulacra.events import StateChange
from simulacra.testing import FakeClock, ScriptedProvider, calls, delay, reply
from simulacra.workflows import WorkflowManager
from simulacra.workflows.events import ForwardedWorkflowEvent, WorkflowStateChange

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


async def test_wf_17_a_message_queued_while_a_workflow_is_on_its_way_out_waits_for_the_next_one():
    conversation = Conversation(ScriptedProvider(["one", "two", "three"]))
    manager = WorkflowManager(conversation)
    queued = []

    def queue(event: ForwardedWorkflowEvent) -> None:
        if isinstance(event.event, WorkflowStateChange) and event.event.current == "disposed" and not queued:
            queued.append(manager.queue_message("later"))

    manager.on(ForwardedWorkflowEvent, queue)
    await manager.run("first")
    assert sketch(conversation.messages) == ["U first", "A one"]
    await manager.run("second")

    assert sketch(conversation.messages)[2:] == ["U second", "A two", "U later", "A three"]


async def test_w_cp_1_a_checkpoint_while_tools_run_never_covers_the_results_to_come(fake_clock: FakeClock):
    """An older call may end meanwhile: its note then is the last message, but the results will stand before it."""
    script = [calls(("stubborn", {"tag": 1})), calls(("slow", {"tag": 2})), "Summary."]
    provider = ScriptedProvider(script, otherwise="ok")
    conversation = Conversation(provider, toolkit=[Stubborn, Slow])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(conversation.prompt, "one")
        await fake_clock.advance(0)
        conversation.cancel_response()
        await fake_clock.advance(8 * PAUSE)
        tasks.start_soon(conversation.prompt, "two")
        await fake_clock.advance(3 * PAUSE)
        assert sketch(conversation.messages[-1:])[0].startswith("U The tool stubborn")
        assert conversation.is_busy
        state = await conversation.checkpoint()
        await fake_clock.advance(4 * PAUSE)

    sent = provider.requests[-1].messages
    assert sketch(conversation.messages[4:6]) == ["A <slow>", "U =slow"]
    assert state.message_id == conversation.messages[4].id
    assert sketch(sent)[1:3] == ["A <slow>", "U =slow"]
    assert "stubborn" in sketch(sent)[3]
    assert not request_faults(sent)
