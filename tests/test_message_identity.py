"""Ids and timestamps of messages in a conversation: who gives them, and that everything refers to them."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import pytest

from simulacra import (
    AssistantMessage,
    ConfigurationError,
    Conversation,
    Event,
    MessageStart,
    MessageStop,
    ProviderError,
    TextContent,
    TextDelta,
    UserMessage,
)
from simulacra.clock import Clock, use_clock
from simulacra.events import ConversationEvent, MessageComplete
from simulacra.testing import FakeClock, ScriptedProvider, calls, fault, reply

pytestmark = pytest.mark.anyio


class Standing(Clock):
    """Real ids at one moment."""

    def now_ms(self):
        return 1_700_000_000_000


async def listen_to_one_turn(provider, prompt="hi"):
    heard = []

    async with Conversation(provider) as conversation:
        conversation.on(Event, heard.append)
        response = await conversation.prompt(prompt)
        messages = conversation.messages

    return heard, response, messages


async def test_msg_5_a_user_message_gets_id_and_timestamp_at_admission(fake_clock: FakeClock):
    await fake_clock.advance(3)

    async with Conversation(ScriptedProvider(["one", "two"])) as conversation:
        await conversation.prompt("hi")
        user, _ = conversation.messages
        assert user.id
        assert user.timestamp == fake_clock.now_ms()
        await conversation.prompt("again")
        ids = [message.id for message in conversation.messages]

    assert len(set(ids)) == 4


async def test_msg_5_the_id_is_a_time_ordered_uuid7():
    async with Conversation(ScriptedProvider(["one", "two"])) as conversation:
        await conversation.prompt("a")
        await conversation.prompt("b")
        ids = [message.id for message in conversation.messages]

    assert ids == sorted(ids)
    assert {message_id[14] for message_id in ids} == {"7"}


async def test_msg_5_given_ids_and_timestamps_are_kept_and_block_ids_never_invented():
    message = UserMessage((TextContent("a", id="b1", timestamp=7), TextContent("b")), id="mine", timestamp=5)

    async with Conversation(ScriptedProvider(["ok"])) as conversation:
        await conversation.prompt(message)
        stored = conversation.messages[0]

    assert (stored.id, stored.timestamp) == ("mine", 5)
    first, second = stored.content
    assert (first.id, first.timestamp) == ("b1", 7)
    assert (second.id, second.timestamp) == (None, 5)


async def test_msg_6_a_reply_has_one_id_from_its_start_on():
    provider = ScriptedProvider(
        [[MessageStart("msg_vendor"), TextDelta(0, "a"), MessageStop()]],
    )
    heard, response, messages = await listen_to_one_turn(provider)
    shown = {
        event.message.id for event in heard if event.name in ("message_start", "message_update", "message_complete")
    }
    assert shown == {response.message.id} == {messages[1].id}
    (start,) = [event for event in heard if event.name == "message_start"]
    assert start.provider_message_id == "msg_vendor"


async def test_msg_6_the_vendors_id_is_kept_in_the_journal():
    provider = ScriptedProvider([[MessageStart("msg_vendor"), TextDelta(0, "a"), MessageStop()]])

    async with Conversation(provider) as conversation:
        await conversation.prompt("hi")
        (closed,) = [entry for entry in conversation.journal.entries() if entry.kind == "response_closed"]

    assert closed.body["provider_message_id"] == "msg_vendor"


async def test_msg_7_equal_texts_at_one_moment_have_different_ids():
    with use_clock(Standing()):
        ids = []

        for _ in range(2):
            async with Conversation(ScriptedProvider(["same", "same"])) as conversation:
                await conversation.prompt("same")
                await conversation.prompt("same")
                ids += [message.id for message in conversation.messages]

    assert len(set(ids)) == 8


async def test_msg_8_load_gives_missing_ids_and_keeps_the_others():
    async with Conversation(ScriptedProvider([])) as conversation:
        conversation.load([UserMessage((TextContent("a"),)), AssistantMessage((TextContent("b"),), id="mine")])
        first, second = conversation.messages

    assert first.id
    assert second.id == "mine"


async def test_msg_8_load_refuses_duplicate_ids_and_changes_nothing():
    twice = [UserMessage((TextContent("a"),), id="x"), AssistantMessage((TextContent("b"),), id="x")]

    async with Conversation(ScriptedProvider([])) as conversation:
        with pytest.raises(ConfigurationError, match="duplicate message id 'x'"):
            conversation.load(twice)

        assert conversation.messages == ()


async def test_msg_8_every_loaded_message_can_be_a_boundary():
    from simulacra import CheckpointState

    async with Conversation(ScriptedProvider([])) as conversation:
        conversation.load([UserMessage((TextContent("a"),)), AssistantMessage((TextContent("b"),))])

        for message in conversation.messages:
            conversation.checkpoint_state = CheckpointState(message_id=message.id, summary="so far")
            assert conversation.checkpoint_state.message_id == message.id


@pytest.mark.parametrize(
    "step", ["fine", reply("x", thinking="hm"), calls(("no_such_tool", {})), fault(ValueError("no"))]
)
async def test_msg_12_every_event_of_a_turn_says_whose_it_is(step):
    heard = []

    async with Conversation(ScriptedProvider([step])) as conversation:
        conversation.on(Event, heard.append)

        with suppress(ProviderError):
            await conversation.send_message("hi")

        assert {event.conversation for event in heard} == {conversation}
        assert len({event.request_id for event in heard if event.request_id}) == 1
        assert all(event.request_id for event in heard)


def test_msg_12_the_two_fields_are_part_of_every_event():
    from simulacra.events import CONVERSATION_EVENTS

    for event in CONVERSATION_EVENTS:
        names = [field.name for field in dataclasses.fields(event)]
        assert names[:2] == ["conversation", "request_id"], event

    assert issubclass(MessageComplete, ConversationEvent)
