"""What a provider is asked, and what it may tell meanwhile."""

from __future__ import annotations

import dataclasses

import pytest
from bare_parts import Adding, Bare, add
from conversation_kit import BEGUN, SENT, Heard, sketch, talk

from simulacra.conversation import Conversation
from simulacra.errors import (
    ServerError,
)
from simulacra.events import BeforeRequest, ContentUpdate, RawRequest, RawStream
from simulacra.messages import RawContent, ToolErrorResult, ToolResultContent, ToolSuccessResult, Usage
from simulacra.policies import RetryPolicy
from simulacra.provider import ProviderProfile, RequestOptions
from simulacra.streaming import (
    ContentStop,
    MediaDelta,
    MessageStart,
    MessageStop,
    RawBlock,
    TextDelta,
    ThinkingStart,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
)
from simulacra.testing import ScriptedProvider, calls, fault, fault_after, reply
from simulacra.tools import tool

pytestmark = pytest.mark.anyio


async def test_rx_1_a_providers_transformers_are_read_afresh():
    provider = ScriptedProvider(["one", "two"], context_transformers=[Adding("first")])
    conversation = Conversation(provider)
    await conversation.prompt("1")
    provider.context_transformers = [Adding("second")]
    await conversation.prompt("2")

    assert [request.system for request in provider.requests] == [("from first",), ("from second",)]


async def test_an_r1_a_reply_that_said_nothing_stays_in_history_and_is_not_sent():
    conversation = talk([MessageStop(stop_reason="end_turn")], "two")
    await conversation.prompt("hi")
    await conversation.prompt("and now?")

    assert [len(message.content) for message in conversation.messages] == [1, 0, 1, 1]
    assert [message.role for message in conversation.provider.requests[1].messages] == ["user", "user"]


async def test_rx_2_a_request_is_frozen_and_has_definitions_and_texts():
    conversation = talk("hello", system="Be brief.", toolkit=[add], options=RequestOptions(max_tokens=5))
    await conversation.prompt("hi")
    (request,) = conversation.provider.requests

    assert sketch(request.messages) == ["U hi"]
    assert [type(each).__name__ for each in request.tools] == ["ToolDefinition"]
    assert (request.system, request.options.max_tokens, request.output) == (("Be brief.",), 5, None)

    with pytest.raises(dataclasses.FrozenInstanceError):
        request.system = ()


async def test_rx_3_errors_before_the_first_event_are_retried_and_later_ones_not():
    policy = RetryPolicy(3, 0, 1)
    early = talk(
        [MessageStart(), UsageUpdate(Usage(input_tokens=1)), *[fault(ServerError("busy"))]], "hello", policy=policy
    )
    late = talk(fault_after("x", ServerError("busy")), "never", policy=policy)

    assert (await early.prompt("hi")).text == "hello"

    with pytest.raises(ServerError):
        await late.prompt("hi")

    assert len(late.provider.requests) == 1


async def test_rx_4_everything_a_provider_can_say_arrives():
    conversation = Conversation(
        Bare(
            MessageStart("v", "real-model", Usage(input_tokens=1)),
            ThinkingStart(0, redacted=True),
            ContentStop(0),
            TextDelta(1, "text"),
            ContentStop(1),
            MediaDelta(2, "image/png", b"12"),
            MediaDelta(2, "image/png", b"34"),
            ContentStop(2),
            RawBlock(3, '{"k": 1}'),
            ToolCallStart(4, "t", "add"),
            ToolArgumentsDelta(4, '{"a": 1}'),
            MessageStop(),
        )
    )
    response = await conversation.send_message("hi")
    thinking, text, media, raw, call = response.message.content

    assert thinking.redacted
    assert text.text == "text"
    assert (media.kind, media.data) == ("image", b"1234")
    assert raw == RawContent(model_kind="bare", data='{"k": 1}', timestamp=raw.timestamp)
    assert (call.tool, call.params) == ("add", {"a": 1})
    assert (response.stop_reason, response.message.model) == ("tool_use", "real-model")


async def test_rx_5_what_the_provider_tells_becomes_events_and_its_stream_is_closed():
    conversation = talk("hello")
    heard = Heard(conversation)
    await conversation.prompt("hi")

    assert heard.names[:4] == [*BEGUN, *SENT]
    assert len(heard.of(RawStream)) == 4
    assert conversation.provider.open_streams == 0


@pytest.mark.parametrize("is_async", [False, True])
async def test_rx_6_a_listener_changes_what_is_sent(is_async):
    conversation = talk("hello")

    def change(event):
        event.params["temperature"] = 0.5
        del event.params["tools"]

    async def change_late(event):
        change(event)

    conversation.on(BeforeRequest, change_late if is_async else change)
    heard = Heard(conversation)
    await conversation.prompt("hi")
    (sent,) = conversation.provider.sent

    assert sent["temperature"] == 0.5
    assert "tools" not in sent
    assert heard.of(RawRequest)[0].data == sent
    assert heard.of(RawRequest)[0].data is not sent


async def test_rx_6_what_a_listener_changes_in_one_request_is_not_in_the_next():
    conversation = talk("one", "two")
    sent = []

    def change(event):
        if not sent:
            event.params["messages"][0]["content"][0]["text"] = "changed"

        sent.append(event.params["messages"][0]["content"][0]["text"])

    conversation.on(BeforeRequest, change)
    await conversation.prompt("as it was")
    await conversation.prompt("next")

    assert sent == ["changed", "as it was"]


async def test_rx_7_updates_share_one_live_block():
    conversation = talk(reply(chunks=["a", "b", "c"]))
    heard = Heard(conversation)
    await conversation.prompt("hi")
    updates = heard.of(ContentUpdate)

    assert len({id(event.content) for event in updates}) == 1
    assert [event.delta for event in updates] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "params", "is_error"),
    [("", {}, False), ('"{\\"a\\": 1}"', {"a": 1}, False), ("[1]", {}, True), ('{"a": ', {}, True), ("NaN", {}, True)],
)
async def test_rx_8_arguments_are_read_by_the_fold(arguments, params, is_error):
    conversation = talk(calls(("add", arguments)))
    response = await conversation.send_message("hi")
    (call,) = response.message.tool_calls

    assert call.params == params
    assert (call.error is not None) == is_error

    if is_error:
        assert call.extended["arguments"] == arguments


async def test_d_6_a_call_that_cannot_be_read_is_answered_and_the_loop_goes_on():
    conversation = talk(calls(("add", '{"a": '), ("add", {"a": 1, "b": 2})), "done", toolkit=[add])
    response = await conversation.prompt("hi")
    bad, good = conversation.messages[2].content

    assert response.text == "done"
    assert isinstance(bad.result, ToolErrorResult)
    assert isinstance(good.result, ToolSuccessResult)
    assert conversation.messages[1].content[0].params == {}


async def test_st_r4_a_call_without_any_argument_text_has_an_empty_object():
    @tool
    async def now() -> str:
        """Tell the time."""
        return "noon"

    parts = [ToolCallStart(0, "t", "now"), ToolArgumentsDelta(0, ""), ContentStop(0), MessageStop("tool_use")]
    conversation = talk(parts, "done", toolkit=[now])
    await conversation.prompt("hi")

    assert conversation.messages[1].content[0].params == {}
    assert isinstance(conversation.messages[2].content[0], ToolResultContent)
    assert conversation.messages[2].content[0].result.result


async def test_st_06_empty_deltas_and_pieces_make_one_call():
    parts = [ToolCallStart(0, "t", "add"), ToolArgumentsDelta(0, ""), ToolArgumentsDelta(0, "{}"), MessageStop()]
    conversation = talk(parts)
    response = await conversation.send_message("hi")

    assert [(call.tool, call.params) for call in response.message.tool_calls] == [("add", {})]


async def test_rx_9_clones_and_conversations_share_no_options():
    provider = ScriptedProvider(["a", "b"], profile=ProviderProfile(context_window=5))
    twin = provider.clone()
    twin.model = "other"

    assert provider.model == "scripted"
    assert twin.requests is provider.requests
