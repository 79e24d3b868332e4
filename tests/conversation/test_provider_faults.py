"""What becomes of streams that end too soon, of errors, and of policies and providers that misbehave."""

from __future__ import annotations

import dataclasses

import pytest
from bare_parts import Adding, Bare, add
from conversation_kit import Heard, sketch, talk

from simulacra.conversation import Conversation
from simulacra.errors import (
    ConnectionFailedError,
    OverloadedError,
    ProtocolError,
    ProviderError,
    ServerError,
    SimulacraError,
    StreamInterruptedError,
)
from simulacra.events import ContentComplete, ContentUpdate, RequestError
from simulacra.messages import Usage
from simulacra.policies import NoopPolicy, Policy, PolicyResult, RetryPolicy
from simulacra.provider import ModelProvider
from simulacra.streaming import (
    ContentStop,
    MessageStart,
    MessageStop,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageUpdate,
)
from simulacra.testing import ScriptedProvider, fault, fault_after

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("events", [[], [MessageStart()], [MessageStart(), UsageUpdate(Usage(input_tokens=1))]])
async def test_st_r3_a_stream_that_brings_nothing_is_an_error_that_names_the_provider(events):
    conversation = talk(events, policy=NoopPolicy())
    heard = Heard(conversation)

    with pytest.raises((StreamInterruptedError, ProtocolError), match="scripted"):
        await conversation.prompt("hi")

    assert heard.of(RequestError)[0].usage == Usage()
    assert conversation.messages == ()


@pytest.mark.parametrize("open_call", [False, True])
async def test_st_r1_a_stream_that_ends_without_its_closing_event(open_call):
    call = [ContentStop(0), ToolCallStart(1, "t", "add"), ToolArgumentsDelta(1, '{"a": 1')] if open_call else []
    conversation = talk([MessageStart(), TextDelta(0, "The answer"), *call], toolkit=[add])

    with pytest.raises(StreamInterruptedError) as caught:
        await conversation.prompt("hi")

    assert sketch([caught.value.partial]) == ["A! The answer"]
    assert conversation.messages == ()


async def test_d_5_an_end_without_the_closing_event_is_never_an_answer():
    conversation = talk([TextDelta(0, "The answer"), ContentStop(0)])
    heard = Heard(conversation)

    with pytest.raises(StreamInterruptedError):
        await conversation.prompt("hi")

    assert heard.ends == ["request_error"]


async def test_st_01_before_any_delivered_event_it_may_be_tried_again():
    conversation = talk([MessageStart()], "hello", policy=RetryPolicy(2, 0, 1))

    assert (await conversation.prompt("hi")).text == "hello"


async def test_st_01_the_text_is_in_the_error():
    conversation = talk([MessageStart(), TextDelta(0, "The answer")], "never", policy=RetryPolicy(2, 0, 1))

    with pytest.raises(StreamInterruptedError) as caught:
        await conversation.prompt("hi")

    assert caught.value.partial.text == "The answer"
    assert len(conversation.provider.requests) == 1


async def test_w_rx_4_nothing_delivered_is_streamed_again():
    conversation = talk(fault_after("Hel", OverloadedError("busy")), "Hello", policy=RetryPolicy(5, 0, 1))
    heard = Heard(conversation)

    with pytest.raises(OverloadedError):
        await conversation.prompt("hi")

    assert "".join(event.delta for event in heard.of(ContentUpdate)) == "Hel"


async def test_w_rx_5_after_the_closing_event_the_provider_is_closed_and_touches_nothing():
    went_on = []

    class Late(ModelProvider):
        kind = "late"
        model = "m"

        async def stream(self, request):
            yield TextDelta(0, "hello")
            yield MessageStop()
            went_on.append("after")
            yield TextDelta(1, "more")

    conversation = Conversation(Late())
    heard = Heard(conversation)
    await conversation.prompt("hi")

    assert went_on == []
    assert len(heard.of(ContentComplete)) == 1
    assert sketch(conversation.messages) == ["U hi", "A hello"]


async def test_w_prv_1_an_error_carries_its_facts():
    cause = OSError("reset by peer")
    error = ConnectionFailedError("gone", status=None, request_id="req-1")
    error.__cause__ = cause
    conversation = talk([TextDelta(0, "Hel"), *[fault(error)]])

    with pytest.raises(ProviderError) as caught:
        await conversation.prompt("hi")

    assert caught.value is error
    assert (error.provider, error.model, error.request_id, error.retryable) == ("scripted", "scripted", "req-1", True)
    assert error.partial.text == "Hel"
    assert error.__cause__ is cause
    assert "scripted/scripted" in str(error)


async def test_w_prv_1_what_the_provider_says_of_itself_is_kept():
    conversation = talk(fault(ServerError("x", provider="gateway", model="real", retryable=False)))

    with pytest.raises(ServerError) as caught:
        await conversation.prompt("hi")

    assert (caught.value.provider, caught.value.model) == ("gateway", "real")


async def test_w_prv_2_a_policy_that_names_no_error_is_an_error_all_the_same():
    class Silent(Policy):
        async def execute(self, cancellation_token, fn, *args):
            return PolicyResult(result=False, metadata={"policy": "Silent"})

    conversation = talk(policy=Silent())
    heard = Heard(conversation)

    with pytest.raises(SimulacraError, match="Silent"):
        await conversation.prompt("hi")

    assert heard.of(RequestError)[0].metadata == {"policy": "Silent"}


async def test_w_prv_2_a_policy_may_move_the_attempt_to_another_provider():
    other = Bare(TextDelta(0, "from afar"), MessageStop())
    other.context_transformers = [Adding("other")]

    class Moving(Policy):
        async def execute(self, cancellation_token, fn, attempt):
            moved = dataclasses.replace(attempt, provider=other, model="m")
            return PolicyResult(result=True, value=await fn(moved))

    conversation = talk(policy=Moving())
    response = await conversation.prompt("hi")

    assert response.text == "from afar"
    assert response.message.model == "m"
    assert other.requests[0].system == ("from other",)
    assert conversation.provider.requests == []


async def test_w_prv_3_switching_providers_keeps_the_conversation():
    first, second = ScriptedProvider(["one"]), Bare(TextDelta(0, "two"), MessageStop())
    conversation = Conversation(first)
    await conversation.prompt("1")
    conversation.provider = second
    response = await conversation.prompt("2")

    assert sketch(second.requests[0].messages) == ["U 1", "A one", "U 2"]
    assert response.message.model == "m"


async def test_a_stream_that_fails_to_close_keeps_the_reply():
    class Broken(ModelProvider):
        kind = "broken"
        model = "m"

        async def stream(self, request):
            try:
                yield TextDelta(0, "hello")
                yield MessageStop()
            finally:
                raise ConnectionFailedError("cannot close")

    conversation = Conversation(Broken())
    heard = Heard(conversation)
    response = await conversation.prompt("hi")

    assert response.text == "hello"
    assert sketch(conversation.messages) == ["U hi", "A hello"]
    assert [event.operation for event in heard if event.name == "lifecycle_error"] == ["closing the stream"]


async def test_conv_6_a_foreign_error_comes_out_typed_with_itself_as_cause():
    conversation = Conversation(Bare(ZeroDivisionError("mine")))
    heard = Heard(conversation)

    with pytest.raises(ProviderError, match="raised ZeroDivisionError: mine") as caught:
        await conversation.prompt("hi")

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.provider == conversation.provider.kind
    assert heard.names[-2:] == ["request_error", "awaiting_response>idle"]
