"""The retry policy where it works: around the requests of a conversation."""

from __future__ import annotations

import dataclasses

import anyio
import pytest

from simulacra.conversation import Conversation
from simulacra.errors import (
    AuthenticationError,
    ConnectionFailedError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamInterruptedError,
)
from simulacra.events import BeforeRequest, ContentUpdate, PromptSend, RequestError, RequestSuccess, StateChange
from simulacra.http_errors import error_from_status
from simulacra.messages import TextContent, ToolResultContent, Usage
from simulacra.policies import CompositePolicy, NoopPolicy, Policy, RetryPolicy
from simulacra.streaming import MessageStart, TextDelta, UsageUpdate
from simulacra.testing import Fault, ScriptedProvider, calls, fault, fault_after, reply, stall
from simulacra.tools import tool
from simulacra.workflows import WorkflowManager

pytestmark = pytest.mark.anyio


def hear(conversation: Conversation, *events: type) -> list:
    heard: list = []

    for event in events:
        conversation.on(event, heard.append)

    return heard


async def test_w_pol_6_a_disconnect_before_the_first_event_is_retried(jumping):
    async with ScriptedProvider([fault(ConnectionFailedError("hung up")), "hello"]) as provider:
        conversation = Conversation(provider)
        heard = hear(conversation, BeforeRequest, PromptSend, RequestError, RequestSuccess)
        response = await conversation.prompt("hi")

    assert response.text == "hello"
    assert [event.name for event in heard] == ["prompt_send", "before_request", "before_request", "request_success"]
    assert [event.attempt for event in heard[1:3]] == [1, 2]
    assert heard[-1].metadata["policies"]["RetryPolicy[0]"]["attempts"] == 2
    assert provider.requests[0].messages == provider.requests[1].messages
    assert [message.role for message in conversation.messages] == ["user", "assistant"]


async def test_w_pol_6_usage_before_the_first_event_does_not_count_as_delivered(jumping):
    begun = [MessageStart(), UsageUpdate(Usage(input_tokens=5)), Fault(ConnectionFailedError("hung up"))]

    async with ScriptedProvider([begun, "hello"]) as provider:
        assert (await Conversation(provider).prompt("hi")).text == "hello"


async def test_w_pol_6_after_the_first_event_the_partial_reply_is_kept_and_nothing_repeated(fake_clock):
    async with ScriptedProvider([fault_after("half a", ConnectionFailedError("hung up"))]) as provider:
        conversation = Conversation(provider)
        deltas = hear(conversation, ContentUpdate)
        ends = hear(conversation, RequestError)

        with pytest.raises(ConnectionFailedError) as caught:
            await conversation.prompt("hi")

    assert caught.value.partial.text == "half a"
    assert caught.value.partial.status == "failed"
    assert "".join(event.delta for event in deltas) == "half a"
    assert len(provider.requests) == 1
    assert fake_clock.sleeps == []
    assert ends[0].metadata["policies"]["RetryPolicy[0]"]["attempts"] == 1
    assert conversation.messages == ()


async def test_rt_r1_what_was_seen_adds_up_to_the_partial_reply(fake_clock):
    for delivered in (1, 2, 7):
        async with ScriptedProvider([fault_after(delivered, ServerError("boom"))]) as provider:
            conversation = Conversation(provider)
            deltas = hear(conversation, ContentUpdate)

            with pytest.raises(ServerError) as caught:
                await conversation.prompt("hi")

        assert "".join(event.delta for event in deltas) == caught.value.partial.text == "x" * delivered


async def test_w_rx_4_an_interrupted_stream_is_not_streamed_again(fake_clock):
    async with ScriptedProvider([[TextDelta(0, "half")]]) as provider:
        conversation = Conversation(provider)
        deltas = hear(conversation, ContentUpdate)

        with pytest.raises(StreamInterruptedError):
            await conversation.prompt("hi")

    assert [event.delta for event in deltas] == ["half"]
    assert len(provider.requests) == 1


async def test_d_4_the_state_changes_once_however_many_attempts_there_are(jumping):
    async with ScriptedProvider([fault(ServerError("1")), fault(ServerError("2")), "hello"]) as provider:
        conversation = Conversation(provider)
        states = hear(conversation, StateChange)
        await conversation.prompt("hi")

    assert [event.current for event in states] == ["awaiting_response", "streaming_response", "idle"]
    assert provider.open_streams == 0
    assert provider.closed_streams == 3


async def test_rt_03_a_long_hint_is_waited_for_within_the_total(jumping):
    limited = fault(error_from_status(429, {"retry-after": "171"}, {"error": {"message": "slow down"}}))

    async with ScriptedProvider([limited, "hello"]) as provider:
        conversation = Conversation(provider, RetryPolicy(3, 1000, 2, max_total_ms=200_000))
        assert (await conversation.prompt("hi")).text == "hello"

    assert jumping.sleeps == [171]


async def test_rt_03_a_long_hint_beyond_the_total_is_the_error_at_once(fake_clock):
    limited = fault(error_from_status(429, {"retry-after": "171"}, {"error": {"message": "slow down"}}))

    async with ScriptedProvider([limited, "next"]) as provider:
        conversation = Conversation(provider)

        with pytest.raises(RateLimitError) as caught:
            await conversation.prompt("hi")

        assert caught.value.retry_after == 171
        assert caught.value.provider == "scripted"
        assert fake_clock.sleeps == []
        assert (await conversation.prompt("again")).text == "next"


async def test_rt_05_exhausted_credit_is_one_request(fake_clock):
    broke = fault(error_from_status(429, {}, {"error": {"code": "insufficient_quota", "message": "pay"}}))

    async with ScriptedProvider([broke]) as provider:
        with pytest.raises(QuotaExceededError):
            await Conversation(provider).prompt("hi")

    assert len(provider.requests) == 1


async def test_w_pol_5_an_authentication_error_is_one_request(fake_clock):
    async with ScriptedProvider([fault(AuthenticationError("request failed: connection error"))]) as provider:
        with pytest.raises(AuthenticationError):
            await Conversation(provider).prompt("hi")


async def test_rt_r5_a_retry_repeats_the_request_with_the_tools_results_and_no_tool(jumping):
    ran = []

    @tool
    def count(word: str) -> int:
        "Count letters."
        ran.append(word)

        return len(word)

    script = [
        calls(("count", {"word": "abc"}), ("count", {"word": "de"})),
        fault(ServerError("boom")),
        fault(ConnectionFailedError("hung up")),
        "3 and 2",
    ]

    async with ScriptedProvider(script) as provider:
        conversation = Conversation(provider, toolkit=[count])
        WorkflowManager(conversation)
        response = await conversation.prompt("count")

    results = [
        [block.result.model_dump() for block in request.messages[-1].content if isinstance(block, ToolResultContent)]
        for request in provider.requests[1:]
    ]
    assert response.text == "3 and 2"
    assert sorted(ran) == ["abc", "de"]
    assert len(results[0]) == 2
    assert results[0] == results[1] == results[2]


async def test_rt_r5_results_stay_when_the_request_after_them_fails_for_good(fake_clock):
    ran = []

    @tool
    def count(word: str) -> int:
        "Count letters."
        ran.append(word)

        return len(word)

    script = [calls(("count", {"word": "abc"})), fault(AuthenticationError("key revoked")), "it was 3"]

    async with ScriptedProvider(script) as provider:
        conversation = Conversation(provider, toolkit=[count])
        WorkflowManager(conversation)

        with pytest.raises(AuthenticationError):
            await conversation.prompt("count")

        response = await conversation.prompt("and?")

    sent = [block for message in provider.requests[-1].messages for block in message.content]
    assert response.text == "it was 3"
    assert ran == ["abc"]
    assert sum(isinstance(block, ToolResultContent) for block in sent) == 1


async def test_pol_13_cancelling_during_back_off_ends_the_turn_within_its_bound(fake_clock):
    conversation = Conversation(
        ScriptedProvider([fault(ConnectionFailedError("gone")), "next"]), RetryPolicy(3, 30_000, 1, jitter=False)
    )
    ended = []

    async def ask():
        response = await conversation.prompt("hi")
        ended.append((response.stop_reason, fake_clock.monotonic()))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await fake_clock.advance(10)
        conversation.cancel_response()
        await fake_clock.advance(0.1)

        assert ended == [("cancelled", 10)]

    assert [message.content[0] for message in conversation.messages][0].text == "hi"
    assert (await conversation.prompt("again")).text == "next"


async def test_pol_13_cancelling_before_the_first_event_closes_the_stream(fake_clock):
    provider = ScriptedProvider([stall(), "next"])
    conversation = Conversation(provider, CompositePolicy(RetryPolicy(3, 1, 1), NoopPolicy()))
    ended = []

    async def ask():
        ended.append((await conversation.prompt("hi")).stop_reason)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await fake_clock.advance(1)
        conversation.cancel_response()
        await fake_clock.advance(0.1)

        assert ended == ["cancelled"]

    assert provider.open_streams == 0
    assert len(provider.requests) == 1
    assert (await conversation.prompt("again")).text == "next"


async def test_pol_1_a_policy_sees_attempts_and_may_turn_to_another_provider(fake_clock):
    spare = ScriptedProvider(["from the spare"], model="spare")
    seen = []

    class Divert(Policy):
        async def execute(self, cancellation_token, fn, *args):
            (attempt,) = args
            seen.append((attempt.model, attempt.conversation_id, attempt.estimated_tokens > 0))

            return await NoopPolicy().execute(
                cancellation_token, fn, dataclasses.replace(attempt, provider=spare, model=spare.model)
            )

    conversation = Conversation(ScriptedProvider(model="main"), Divert(), id="talk")
    response = await conversation.prompt("hi")

    assert response.text == "from the spare"
    assert seen == [("main", "talk", True)]
    assert conversation.messages[-1].model == "spare"
    assert spare.requests[0].messages[0].content[0] == TextContent("hi", timestamp=fake_clock.now_ms())


async def test_w_pol_8_turns_leave_nothing_on_the_clock(jumping):
    async with ScriptedProvider([fault(ServerError("x")), "a", reply("b"), fault(ServerError("x")), "c"]) as provider:
        conversation = Conversation(provider)

        for expected in "abc":
            assert (await conversation.prompt("hi")).text == expected

    assert jumping.pending == 0
