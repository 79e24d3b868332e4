"""What a turn announces, in which order."""

from __future__ import annotations

import pytest
from conversation_kit import BEGUN, COMPLETED, OPENED, SENT, Heard, sketch, talk

from simulacra.emitter import Event
from simulacra.errors import AuthenticationError, ConnectionFailedError, ServerError
from simulacra.events import (
    BeforeRequest,
    ContentComplete,
    ContentStart,
    ContentUpdate,
    MessageComplete,
    MessageStart,
    MessageUpdate,
    RequestError,
    RequestSuccess,
    StateChange,
)
from simulacra.messages import Usage
from simulacra.policies import RetryPolicy
from simulacra.streaming import MessageStart as Start
from simulacra.streaming import MessageStop, TextDelta, UsageUpdate
from simulacra.testing import delay, fault, fault_after, reply
from simulacra.transformers import ContextTransformer

pytestmark = pytest.mark.anyio


BLOCK = ["content_start", "content_update", "content_complete"]


class NothingStored(ContextTransformer):
    async def transform_completion(self, message, context):
        raise ArithmeticError


async def test_conv_11_a_turn_is_announced_in_order():
    conversation = talk("hello")
    heard = Heard(conversation)
    await conversation.prompt("hi")

    assert heard.names == [*OPENED, *BLOCK, *COMPLETED]


async def test_conv_11_chunks_precede_their_events_and_the_first_one_the_change_to_streaming():
    conversation = talk(reply(chunks=["a", "b"]))
    heard = Heard(conversation)
    await conversation.prompt("hi")

    assert heard.all_names == [
        *BEGUN,
        *SENT,
        "raw_stream",  # the vendor's opening
        "raw_stream",
        "awaiting_response>streaming_response",
        "message_start",
        "content_start",
        "content_update",
        "raw_stream",
        "content_update",
        "raw_stream",
        "content_complete",
        "raw_stream",
        *COMPLETED,
    ]


async def test_conv_11_a_change_of_usage_is_a_message_update():
    conversation = talk(
        [Start(usage=Usage(input_tokens=3)), TextDelta(0, "a"), UsageUpdate(Usage(output_tokens=1)), MessageStop()]
    )
    heard = Heard(conversation)
    await conversation.prompt("hi")
    (updated,) = heard.of(MessageUpdate)

    assert heard.names == [*OPENED, "content_start", "content_update", "message_update", "content_complete", *COMPLETED]
    assert heard.of(MessageStart)[0].usage == Usage(input_tokens=3)
    assert updated.usage == Usage(input_tokens=3, output_tokens=1)


async def test_conv_11_a_reply_without_content_has_no_content_events():
    conversation = talk(reply())
    heard = Heard(conversation)
    response = await conversation.prompt("hi")

    assert heard.names == [*OPENED, *COMPLETED]
    assert response.text == ""


async def test_conv_11_blocks_keep_their_order():
    conversation = talk(reply("hello", thinking="hm"))
    heard = Heard(conversation)
    await conversation.prompt("hi")
    blocks = heard.of(ContentStart, ContentUpdate, ContentComplete)

    assert [(event.name, event.index) for event in blocks] == [(name, index) for index in (0, 1) for name in BLOCK]


async def test_conv_11_a_commit_is_directly_followed_by_the_change_of_history():
    conversation = talk("hello")
    lengths = []
    conversation.on(Event, lambda event: lengths.append((event.name, len(conversation.messages))))
    await conversation.prompt("hi")
    grown = [position for position, (_, length) in enumerate(lengths) if length == 2]

    assert lengths[grown[0]] == ("history_change", 2)


@pytest.mark.parametrize("pause", [0.0, 3.0])
async def test_conv_12_the_order_does_not_depend_on_how_fast_chunks_come(pause, ask, fake_clock):
    conversation = talk([delay(pause), *reply(chunks=["a", delay(pause), "b", delay(pause)])])
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    await fake_clock.advance(20)

    assert call.outcome.text == "ab"
    assert heard.names == [*OPENED, "content_start", "content_update", "content_update", "content_complete", *COMPLETED]


async def test_conv_13_the_message_starts_before_its_content_also_without_the_vendors_opening():
    conversation = talk([TextDelta(0, "a"), MessageStop()])
    heard = Heard(conversation)
    await conversation.prompt("hi")

    assert heard.names == [*OPENED, *BLOCK, *COMPLETED]


async def test_conv_14_one_request_id_from_first_to_last_event():
    conversation = talk("hello", "again")
    heard = Heard(conversation)
    first = await conversation.prompt("hi")
    count = len(heard)
    second = await conversation.prompt("more")

    assert {event.request_id for event in heard[:count]} == {first.request_id}
    assert {event.request_id for event in heard[count:]} == {second.request_id}
    assert first.request_id
    assert first.request_id != second.request_id


async def test_conv_14_a_retry_repeats_the_request_and_nothing_before_it(ask, fake_clock):
    policy = RetryPolicy(3, 1000, 2, jitter=False)
    conversation = talk(fault(ServerError("busy")), fault(ConnectionFailedError("gone")), "hello", policy=policy)
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    await fake_clock.advance(10)

    assert call.outcome.text == "hello"
    assert heard.names == [*BEGUN, *SENT, *SENT, *OPENED[2:], *BLOCK, *COMPLETED]
    assert [event.attempt for event in heard.of(BeforeRequest)] == [1, 2, 3]
    assert {event.request_id for event in heard} == {call.outcome.request_id}
    assert heard.of(RequestSuccess)[0].metadata["attempts"] == 3


async def test_conv_15_idle_comes_last_and_a_prompt_from_there_knows_the_turn():
    conversation = talk("one", "two")

    async def go_on(event):
        if event.current == "idle" and conversation.turn_count == 1:
            await conversation.prompt("more")

    conversation.on(StateChange, go_on)
    await conversation.prompt("hi")

    assert sketch(conversation.messages) == ["U hi", "A one", "U more", "A two"]
    assert sketch(conversation.provider.requests[1].messages) == ["U hi", "A one", "U more"]


async def test_conv_15_the_reply_is_in_history_when_it_is_announced():
    conversation = talk("one")
    seen = []
    conversation.on(MessageComplete, lambda event: seen.append((conversation.messages[-1], conversation.state)))
    response = await conversation.prompt("hi")

    assert seen == [(response.message, "streaming_response")]


async def test_conv_16_failure_before_the_first_event():
    conversation = talk(fault(AuthenticationError("wrong key")))
    heard = Heard(conversation)

    with pytest.raises(AuthenticationError) as caught:
        await conversation.prompt("hi")

    (failed,) = heard.of(RequestError)

    assert heard.names == [*BEGUN, *SENT, "request_error", "awaiting_response>idle"]
    assert failed.error is caught.value
    assert failed.metadata["policies"]["RetryPolicy[0]"]["attempts"] == 1
    assert sketch([failed.message]) == ["U hi"]
    assert conversation.messages == ()
    assert caught.value.partial is None


async def test_conv_17_failure_in_mid_stream():
    conversation = talk(fault_after("Hel", ConnectionFailedError("gone")))
    heard = Heard(conversation)

    with pytest.raises(ConnectionFailedError) as caught:
        await conversation.prompt("hi")

    assert heard.names == [*OPENED, "content_start", "content_update", "request_error", "streaming_response>idle"]
    assert sketch([caught.value.partial]) == ["A! Hel"]
    assert caught.value.partial.id == heard.of(MessageStart)[0].message.id
    assert conversation.messages == ()


async def test_conv_17_failure_of_the_completion_transformer_keeps_the_reply_in_the_journal():
    conversation = talk("hello", context_transformer=NothingStored())
    heard = Heard(conversation)

    with pytest.raises(ArithmeticError):
        await conversation.prompt("hi")

    (attempt,) = conversation.journal.attempts()

    assert heard.names == [*OPENED, *BLOCK, "request_error", "streaming_response>idle"]
    assert sketch([*attempt.inputs, attempt.partial]) == ["U hi", "A! hello"]
    assert conversation.messages == ()
