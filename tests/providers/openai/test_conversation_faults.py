"""What goes wrong on the wire, seen from a conversation: retried where that helps, typed everywhere."""

from __future__ import annotations

import json

import pytest
from chat_wire import FINE, add, call, calls, chunk, raw, sent_messages, stream_of

from simulacra import Conversation, RetryPolicy, tool
from simulacra.errors import (
    AuthenticationError,
    ContextWindowError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    StreamInterruptedError,
)
from simulacra.events import ContentUpdate
from simulacra.testing import EmulatedCall, EmulatedReply, event_stream, http_error

pytestmark = pytest.mark.anyio


async def test_rt_01_an_overload_inside_the_stream_is_retried(serve, jumping):
    overload = raw(b'event: error\ndata: {"error": {"type": "overloaded_error", "message": "busy"}}\n\n')

    async with serve([overload, FINE]) as (emulator, provider):
        conversation = Conversation(provider)
        heard = []
        conversation.on(ContentUpdate, heard.append)
        response = await conversation.prompt("hi")

    assert response.text == "fine"
    assert [event.delta for event in heard] == ["fi", "ne"]
    assert len(emulator.requests) == 2
    assert len(conversation.messages) == 2


async def test_rt_03_a_wait_hint_is_never_shortened(serve, jumping):
    policy = RetryPolicy(3, 1000, 2, max_total_ms=600_000)

    async with serve([http_error(429, retry_after=171), FINE]) as (_, provider):
        assert (await Conversation(provider, policy).prompt("hi")).text == "fine"

    assert sum(jumping.sleeps) >= 171


async def test_rt_03_a_hint_beyond_the_total_ends_at_once(serve, jumping):
    async with serve([http_error(429, retry_after=171)]) as (emulator, provider):
        with pytest.raises(RateLimitError) as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.retry_after == 171
    assert len(emulator.requests) == 1
    assert jumping.sleeps == []


async def test_rt_05_used_up_credit_is_one_request(serve, jumping):
    async with serve([http_error(429, code="insufficient_quota")]) as (emulator, provider):
        with pytest.raises(QuotaExceededError):
            await Conversation(provider).prompt("hi")

    assert len(emulator.requests) == 1


@pytest.mark.parametrize("failure", [http_error(429), EmulatedReply(hangs_up=True), http_error(500)])
async def test_rt_07_the_policy_alone_counts_requests(serve, jumping, failure):
    async with serve([failure] * 4, max_retries=9) as (emulator, provider):
        with pytest.raises(ProviderError):
            await Conversation(provider, RetryPolicy(4, 1000, 2)).prompt("hi")

    assert len(emulator.requests) == 4


async def test_rt_09_an_error_chunk_never_becomes_text(serve, jumping):
    error = raw(b'data: {"error":{"message":"overloaded","code":503}}\n\n')

    async with serve([error] * 3) as (_, provider):
        conversation = Conversation(provider)
        heard = []
        conversation.on(ContentUpdate, heard.append)

        with pytest.raises(OverloadedError) as raised:
            await conversation.prompt("hi")

    assert raised.value.provider == "openai"
    assert raised.value.model == "gpt-test"
    assert heard == []
    assert conversation.messages == ()


@pytest.mark.parametrize(
    ("status", "requests"),
    [
        (400, 1),
        (401, 1),
        (403, 1),
        (404, 1),
        (422, 1),
        (408, 3),
        (409, 3),
        (429, 3),
        (500, 3),
        (502, 3),
        (503, 3),
        (529, 3),
    ],
)
async def test_rt_r4_what_is_retried(serve, jumping, status, requests):
    async with serve([http_error(status)] * requests) as (emulator, provider):
        with pytest.raises(ProviderError) as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.status == status
    assert len(emulator.requests) == requests


async def test_rt_r1_after_the_first_delivered_event_nothing_is_repeated(serve, jumping):
    async with serve([EmulatedReply(text=["Hel", "lo"], cut_after=3)]) as (emulator, provider):
        conversation = Conversation(provider)
        heard = []
        conversation.on(ContentUpdate, heard.append)

        with pytest.raises(StreamInterruptedError) as raised:
            await conversation.prompt("hi")

    assert raised.value.partial.text == "".join(event.delta for event in heard) == "Hello"
    assert len(emulator.requests) == 1
    assert conversation.messages == ()


async def test_rt_r5_a_retry_repeats_the_request_and_no_tool(serve, jumping):
    runs = []

    @tool
    def once() -> str:
        """Count."""
        runs.append(1)
        return "counted"

    async with serve([EmulatedReply(calls=[EmulatedCall(tool="once")]), http_error(503), FINE]) as (emulator, provider):
        assert (await Conversation(provider, toolkit=[once]).prompt("hi")).text == "fine"

    assert runs == [1]
    assert sent_messages(emulator)[1] == sent_messages(emulator)[2]
    assert "counted" in sent_messages(emulator)[2][-1]["content"]


async def test_st_01_a_clean_end_of_file_is_no_answer(serve, jumping):
    cut = EmulatedReply(text="The answer", finish=None, usage=None, closed=False)

    async with serve([cut]) as (_, provider):
        with pytest.raises(StreamInterruptedError) as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.partial.text == "The answer"


async def test_st_01_before_any_delivered_event_it_is_retried(serve, jumping):
    empty = stream_of(chunk({"role": "assistant", "content": ""}), done=False)

    async with serve([empty, FINE]) as (_, provider):
        assert (await Conversation(provider).prompt("hi")).text == "fine"


async def test_st_r1_done_without_a_reason_is_an_answer(serve):
    async with serve([stream_of(chunk({"content": "Yes."}))]) as (_, provider):
        response = await Conversation(provider).prompt("hi")

    assert (response.text, response.stop_reason) == ("Yes.", "other")


async def test_st_r1_open_calls_of_an_interrupted_stream_never_run(serve, jumping):
    runs = []

    @tool
    def danger() -> None:
        """Count."""
        runs.append(1)

    cut = EmulatedReply(text="Well", calls=[EmulatedCall(tool="danger")], finish=None, usage=None, closed=False)

    async with serve([cut]) as (_, provider):
        with pytest.raises(StreamInterruptedError):
            await Conversation(provider, toolkit=[danger]).prompt("hi")

    assert runs == []


async def test_st_r3_a_reply_that_never_opens_names_the_provider(serve, jumping):
    async with serve([raw(b": ping\n\n")] * 3) as (_, provider):
        with pytest.raises(ProtocolError, match="openai/gpt-test") as raised:
            await Conversation(provider).prompt("hi")

    assert raised.value.partial is None


async def test_st_r4_a_call_without_argument_text_has_the_empty_object(serve):
    @tool
    def now() -> str:
        """The time."""
        return "noon"

    async with serve([EmulatedReply(calls=[EmulatedCall(tool="now", arguments=())]), FINE]) as (emulator, provider):
        await Conversation(provider, toolkit=[now]).prompt("hi")

    replayed = sent_messages(emulator)[1]
    assert replayed[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert "noon" in replayed[2]["content"]


async def test_st_06_pings_and_unknown_events_are_ignored(serve):
    events = [b": ping\n\n", b"event: future_event\ndata: {}\n\n", b"event: ping\ndata: null\n\n"]
    events += event_stream([calls(call("add", "", index=0, id="a")), calls(call(None, '{"a":1}', index=0))], done=False)
    events += [b": ping\n\n", *event_stream([chunk(finish="tool_calls")])]

    async with serve([raw(*events), FINE]) as (emulator, provider):
        assert (await Conversation(provider, toolkit=[add]).prompt("hi")).text == "fine"

    assert json.loads(sent_messages(emulator)[1][-1]["content"]) == {"result": True, "output": 3}


async def test_cp_12_a_prompt_that_was_too_large_does_not_stay(serve):
    too_large = http_error(400, "too long", code="context_length_exceeded")

    async with serve([too_large, FINE]) as (emulator, provider):
        conversation = Conversation(provider)

        with pytest.raises(ContextWindowError):
            await conversation.prompt("x" * 1_000_000)

        assert conversation.messages == ()
        await conversation.prompt("hi")

    assert len(emulator.requests[0].content) > 1_000_000
    assert sent_messages(emulator)[1] == [{"role": "user", "content": "hi"}]


async def test_a_wrong_key_is_a_typed_error(serve):
    async with serve([http_error(401, "Incorrect API key")]) as (_, provider):
        with pytest.raises(AuthenticationError, match="Incorrect API key"):
            await Conversation(provider).prompt("hi")
