"""What listeners get, and what they cannot break."""

from __future__ import annotations

import dataclasses

import pytest
from conversation_kit import COMPLETED, OPENED, Heard, named, sketch, talk

from simulacra.errors import ConfigurationError, ServerError
from simulacra.events import (
    CONVERSATION_EVENTS,
    BeforeRequest,
    ContentComplete,
    ContentStart,
    ContentUpdate,
    HistoryChange,
    LifecycleError,
    MessageComplete,
    MessageStart,
    MessageUpdate,
    PromptSend,
    RawRequest,
    RawResponse,
    RawStream,
    RequestError,
    RequestSuccess,
    StateChange,
)
from simulacra.messages import TextContent, Usage
from simulacra.policies import NoopPolicy, RetryPolicy
from simulacra.streaming import ContentStop, MessageStop, TextDelta, UsageUpdate
from simulacra.streaming import MessageStart as Start
from simulacra.testing import calls, fault, fault_after, reply
from simulacra.transformers import ContextTransformer

pytestmark = pytest.mark.anyio


BLOCK = ["content_start", "content_update", "content_complete"]


class NothingStored(ContextTransformer):
    async def transform_completion(self, message, context):
        raise ArithmeticError


@pytest.mark.parametrize("name", [event.name for event in CONVERSATION_EVENTS if event is not LifecycleError])
@pytest.mark.parametrize("is_async", [False, True])
async def test_conv_23_a_listener_that_raises_changes_nothing(name, is_async):
    conversation = talk("hello")
    expected = talk("hello")
    plain = Heard(expected)
    await expected.prompt("hi")

    def fail(event):
        raise ZeroDivisionError(event.name)

    async def fail_late(event):
        fail(event)

    conversation.on(name, fail_late if is_async else fail)
    heard = Heard(conversation)
    response = await conversation.prompt("hi")
    failures = heard.of(LifecycleError)

    assert response.text == "hello"
    assert [known for known in heard.names if known != "lifecycle_error"] == plain.names
    assert len(failures) == sum(event.name == name for event in heard)
    assert all(failure.operation == "listener" for failure in failures)
    assert all(failure.context == {"event": name} for failure in failures)


async def test_conv_23_a_failing_listener_of_failures_is_only_logged(caplog):
    conversation = talk("hello")
    count = []

    def fail(event):
        count.append(event)
        raise ZeroDivisionError

    conversation.on("message_complete", fail)
    conversation.on("lifecycle_error", fail)

    assert (await conversation.prompt("hi")).text == "hello"
    assert [named(event) for event in count] == ["message_complete", "lifecycle_error"]
    assert "listener failed" in caplog.text


async def test_conv_24_what_comes_after_the_closing_event_is_ignored():
    conversation = talk([*reply("hello"), TextDelta(5, "more"), MessageStop("max_tokens"), *reply("again")])
    heard = Heard(conversation)
    response = await conversation.prompt("hi")

    assert response.stop_reason == "end_turn"
    assert heard.names == [*OPENED, *BLOCK, *COMPLETED]
    assert sketch(conversation.messages) == ["U hi", "A hello"]


async def test_conv_33_payloads():
    usage = Usage(input_tokens=3, output_tokens=2)
    conversation = talk(
        [
            Start("vendor-1", "model-1"),
            TextDelta(0, "hel"),
            TextDelta(0, "lo"),
            ContentStop(0),
            UsageUpdate(usage),
            MessageStop("stop_sequence", "###"),
        ]
    )
    heard = Heard(conversation)
    lives = []
    conversation.on(ContentUpdate, lambda event: lives.append((event.delta, event.content.text, event.content)))
    response = await conversation.prompt("hi")
    user, answer = conversation.messages

    def only(kind):
        (event,) = heard.of(kind)

        return event

    assert all(event.conversation is conversation for event in heard)
    assert only(PromptSend).message == user
    assert only(BeforeRequest).params == conversation.provider.sent[0]
    assert only(RawRequest).data == conversation.provider.sent[0]
    assert [type(event.data).__name__ for event in heard.of(RawStream)] == [
        "MessageStart", "TextDelta", "TextDelta", "ContentStop", "UsageUpdate", "MessageStop",
    ]  # fmt: skip
    assert len(only(RawResponse).data["events"]) == 6
    assert (only(MessageStart).provider_message_id, only(MessageStart).model) == ("vendor-1", "model-1")
    assert only(MessageStart).message.id == only(MessageUpdate).message.id == answer.id
    assert [live[:2] for live in lives] == [("hel", "hel"), ("lo", "hello")]
    assert lives[0][2] is lives[1][2] is only(ContentStart).content
    assert only(ContentComplete).content == answer.content[0] == TextContent("hello", timestamp=answer.timestamp)
    assert only(RequestSuccess).message == user
    assert (only(MessageComplete).message, only(MessageComplete).usage) == (answer, usage)
    assert (only(MessageComplete).stop_reason, only(MessageComplete).stop_details) == ("stop_sequence", "###")
    assert only(HistoryChange).message_ids == (user.id, answer.id)
    assert (only(HistoryChange).reason, only(HistoryChange).late) == ("append", False)
    assert only(HistoryChange).seq == conversation.journal.head
    assert (response.message, response.usage, response.stop_details) == (answer, usage, "###")


def test_conv_33_every_event_is_known_by_its_name():
    names = [event.name for event in CONVERSATION_EVENTS]

    assert len(set(names)) == len(names)
    assert {
        "state_change", "prompt_send", "before_request", "raw_request", "raw_response", "raw_stream", "message_start",
        "message_update", "content_start", "content_update", "content_complete", "message_complete", "request_success",
        "request_error", "response_cancelled", "history_change", "checkpoint_begin", "checkpoint_complete",
        "create_child", "child_event", "lifecycle_error", "dispose", "input_queued", "input_sent", "input_dropped",
    } == set(names)  # fmt: skip
    assert all(dataclasses.is_dataclass(event) for event in CONVERSATION_EVENTS)


async def test_conv_2_listeners_can_be_added_once_and_taken_off():
    conversation = talk(otherwise="hello")
    heard = []
    unsubscribe = conversation.on(StateChange, heard.append)
    conversation.once("prompt_send", heard.append)
    conversation.off("prompt_send", print)
    await conversation.prompt("1")
    unsubscribe()
    await conversation.prompt("2")

    assert [named(event) for event in heard] == [
        "idle>awaiting_response",
        "prompt_send",
        "awaiting_response>streaming_response",
        "streaming_response>idle",
    ]


async def test_conv_3_an_unknown_event_is_refused_with_the_known_ones():
    with pytest.raises(ConfigurationError, match="message_complete"):
        talk().on("message_completed", print)


async def test_conv_4_listeners_run_in_order_and_get_one_event():
    conversation = talk("hello")
    order = []

    async def slowly(event):
        order.append(("first", event.conversation))
        conversation.on("message_complete", lambda event: order.append(("late", None)))

    conversation.on("message_complete", slowly)
    conversation.on("message_complete", lambda event: order.append(("second", event.conversation)))
    await conversation.prompt("hi")

    assert order == [("first", conversation), ("second", conversation)]


async def test_w_conv_7_the_request_id_is_on_every_event_of_a_failing_turn_too():
    conversation = talk(fault_after("x", ServerError("broken")), policy=NoopPolicy())
    heard = Heard(conversation)

    with pytest.raises(ServerError):
        await conversation.prompt("hi")

    assert len({event.request_id for event in heard}) == 1
    assert heard[0].request_id


@pytest.mark.parametrize(
    "step", ["hello", fault(ServerError("broken")), fault_after("x", ServerError("broken")), calls(("f", {}))]
)
async def test_w_conv_8_every_turn_has_exactly_one_end(step):
    conversation = talk(step, policy=NoopPolicy())
    heard = Heard(conversation)

    try:
        await conversation.send_message("hi")
    except ServerError:
        assert heard.ends == ["request_error"]
    else:
        assert heard.ends == ["request_success"]

    assert conversation.state == "idle"


async def test_w_conv_9_failures_raise_with_the_policys_record():
    conversation = talk(*[fault(ServerError("broken"))] * 3, policy=RetryPolicy(3, 0, 1))
    heard = Heard(conversation)

    with pytest.raises(ServerError):
        await conversation.prompt("hi")

    assert heard.of(RequestError)[0].metadata["attempts"] == 3
    assert heard.names[-2:] == ["request_error", "awaiting_response>idle"]


async def test_w_conv_10_no_turn_both_fails_and_succeeds():
    conversation = talk("hello", context_transformer=NothingStored())
    heard = Heard(conversation)

    with pytest.raises(ArithmeticError):
        await conversation.prompt("hi")

    assert heard.ends == ["request_error"]


async def test_w_conv_11_every_listener_may_raise_at_once():
    conversation = talk("hello")

    def fail(event):
        raise ZeroDivisionError

    for event in CONVERSATION_EVENTS:
        conversation.on(event.name, fail)

    assert (await conversation.prompt("hi")).text == "hello"
    assert sketch(conversation.messages) == ["U hi", "A hello"]


async def test_w_conv_12_idle_is_announced_after_the_commit():
    conversation = talk("hello")
    seen = []
    conversation.on(StateChange, lambda event: seen.append((event.current, len(conversation.messages))))
    await conversation.prompt("hi")

    assert seen[-1] == ("idle", 2)


async def test_w_conv_19_raw_payloads_are_not_changed_later():
    conversation = talk(reply(chunks=["a", "b"]))
    heard = Heard(conversation)
    conversation.on(BeforeRequest, lambda event: event.params.update(seed=7))
    await conversation.prompt("hi")
    (raw,) = heard.of(RawRequest)
    conversation.provider.sent[0]["seed"] = 8
    conversation.provider.sent[0]["messages"].clear()

    assert raw.data["seed"] == 7
    assert len(raw.data["messages"]) == 1
