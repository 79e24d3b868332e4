"""What a provider owes the engine and what it may rely on, seen through whole turns of a scripted provider."""

from __future__ import annotations

import copy

import anyio
import pytest

from simulacra import (
    Conversation,
    MessageStop,
    OverloadedError,
    ProviderError,
    ProviderProfile,
    RequestOptions,
    RetryPolicy,
    StreamInterruptedError,
    TextDelta,
    ToolDefinition,
    WorkflowManager,
    tool,
)
from simulacra.events import BeforeRequest, ContentUpdate, RawRequest, RawResponse, RawStream
from simulacra.provider import ModelProvider, ModelRequest
from simulacra.testing import ScriptedProvider, calls, delay, fault, fault_after, stall

pytestmark = pytest.mark.anyio


@tool
def now() -> str:
    """Tells the time."""
    return "12:00"


class Counting(ModelProvider):
    """Says how many deltas were pulled out of it."""

    kind = "counting"
    model = "m"

    def __init__(self, deltas):
        self.deltas = deltas
        self.pulled = 0
        self.closed = False

    async def stream(self, request: ModelRequest):
        try:
            for _ in range(self.deltas):
                self.pulled += 1
                yield TextDelta(0, "x")

            yield MessageStop()
        finally:
            self.closed = True


async def test_rx_2_a_request_carries_definitions_and_system_texts_and_no_engine_objects():
    async with ScriptedProvider(["ok"]) as provider:
        conversation = Conversation(provider, system="Be brief.", toolkit=[now], options=RequestOptions(max_tokens=7))
        await conversation.prompt("hi", seed=3)

    (request,) = provider.requests
    assert request.system == ("Be brief.",)
    assert all(type(definition) is ToolDefinition for definition in request.tools)
    assert (request.options.max_tokens, request.options.extra["seed"]) == (7, 3)
    assert [message.role for message in request.messages] == ["user"]


async def test_rx_5_what_the_provider_tells_becomes_events_once_per_attempt():
    heard = []

    async with ScriptedProvider(["hello"]) as provider, Conversation(provider) as conversation:
        for event in (BeforeRequest, RawRequest, RawStream, RawResponse):
            conversation.on(event, heard.append)

        await conversation.prompt("hi")

    names = [event.name for event in heard]
    assert names[:2] == ["before_request", "raw_request"]
    assert names[-1] == "raw_response"
    assert names[2:-1] == ["raw_stream"] * len(heard[-1].data["events"])
    assert heard[1].data == provider.sent[0]


async def test_rx_5_the_stream_is_closed_however_the_turn_ends():
    provider = ScriptedProvider(["fine", fault_after("half", ValueError("cut")), stall()])

    async with Conversation(provider) as conversation:
        await conversation.prompt("a")

        with pytest.raises(ProviderError, match="ValueError: cut"):
            await conversation.prompt("b")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(conversation.prompt, "c")
            await anyio.wait_all_tasks_blocked()
            conversation.cancel_response()

    assert (provider.open_streams, provider.closed_streams) == (0, 3)


@pytest.mark.parametrize("is_async", [False, True])
async def test_rx_6_a_listener_may_change_what_is_sent(is_async):
    shown = []

    def change(event):
        event.params["temperature"] = 0.25
        event.params["extra_headers"] = {"x-trace": "1"}

    async def change_later(event):
        await anyio.lowlevel.checkpoint()
        change(event)

    async with ScriptedProvider(["ok"]) as provider, Conversation(provider) as conversation:
        conversation.on(BeforeRequest, change_later if is_async else change)
        conversation.on(RawRequest, shown.append)
        await conversation.prompt("hi")

    assert provider.sent[0]["temperature"] == 0.25
    assert provider.sent[0]["extra_headers"] == {"x-trace": "1"}
    assert shown[0].data == provider.sent[0]


async def test_rx_6_what_was_sent_is_shown_as_it_was_sent():
    shown = []

    async with ScriptedProvider(["ok"]) as provider, Conversation(provider) as conversation:
        conversation.on(RawRequest, shown.append)
        await conversation.prompt("hi")
        before = copy.deepcopy(shown[0].data)
        provider.sent[0]["messages"].clear()

    assert shown[0].data == before


async def test_w_rx_1_a_slow_consumer_slows_the_stream():
    provider = Counting(1000)

    async with Conversation(provider) as conversation, conversation.stream("go") as stream:
        seen = 0

        async for _ in stream.text_deltas():
            seen += 1
            assert provider.pulled <= seen + 1

            if seen == 10:
                break

    assert provider.pulled <= 11
    assert provider.closed


async def test_w_rx_1_a_slow_listener_slows_the_stream_too():
    provider = Counting(50)
    lead = []

    async def slow(event):
        await anyio.lowlevel.checkpoint()
        lead.append(provider.pulled)

    async with Conversation(provider) as conversation:
        conversation.on(ContentUpdate, slow)
        await conversation.prompt("go")

    assert lead == list(range(1, 51))


async def test_w_rx_4_a_retry_never_shows_anything_twice(fake_clock):
    provider = ScriptedProvider([fault_after("half", OverloadedError("busy"))])
    shown = []

    async with provider, Conversation(provider) as conversation:
        conversation.on(ContentUpdate, lambda event: shown.append(event.delta))

        with pytest.raises(OverloadedError) as raised:
            await conversation.prompt("hi")

    assert shown == ["half"]
    assert raised.value.partial.text == "half"


async def test_w_rx_5_after_the_closing_event_the_provider_cannot_touch_the_conversation():
    late = [TextDelta(0, "a"), MessageStop(), TextDelta(1, "late"), fault(ValueError("late")), MessageStop("error")]

    async with ScriptedProvider([late]) as provider, Conversation(provider) as conversation:
        heard = []
        conversation.on(ContentUpdate, lambda event: heard.append(event.delta))
        response = await conversation.prompt("hi")
        assert (response.text, response.stop_reason) == ("a", "end_turn")
        assert len(conversation.messages) == 2

    assert heard == ["a"]


async def test_st_r3_a_reply_that_never_opens_is_a_typed_error_that_names_the_provider():
    async with Conversation(ScriptedProvider([[]]), RetryPolicy(1, 1, 1)) as conversation:
        with pytest.raises(StreamInterruptedError, match="scripted/scripted") as raised:
            await conversation.prompt("hi")

    assert raised.value.partial is None


async def test_w_prv_2_time_limits_and_abort_are_part_of_the_port(fake_clock):
    from simulacra import TimeoutExceededError

    provider = ScriptedProvider([[TextDelta(0, "x"), stall()], [delay(5), TextDelta(0, "x"), MessageStop()]])
    failures = []

    async def ask(**options):
        try:
            await conversation.prompt("hi", **options)
        except TimeoutExceededError as error:
            failures.append(str(error))

    async with Conversation(provider, RetryPolicy(1, 1, 1)) as conversation:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await fake_clock.advance(119)
            assert failures == []
            await fake_clock.advance(2)

        assert len(failures) == 1
        assert "idle_timeout" in failures[0]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: ask(first_event_timeout=3))
            await fake_clock.advance(3)

        assert "first_event_timeout" in failures[1]

    assert provider.open_streams == 0


async def test_w_prv_2_profile_and_count_are_part_of_the_port():
    profile = ProviderProfile(context_window=1000, max_output_tokens=10, media_types=frozenset({"image/png"}))
    provider = ScriptedProvider([], profile=profile)
    assert provider.profile.context_window == 1000
    assert await provider.count_tokens(ModelRequest(messages=())) is None


async def test_gen_6_dispose_may_be_repeated_on_every_object():
    from simulacra import CancellationTokenSource

    source = CancellationTokenSource()
    source.dispose()
    source.dispose()

    async with Conversation(ScriptedProvider([calls(("now", {})), "done"]), toolkit=[now]) as conversation:
        manager = WorkflowManager(conversation)
        await manager.run("hi")
        await manager.aclose()
        await manager.aclose()
        await conversation.aclose()
        await conversation.aclose()

    assert conversation.state == "disposed"


async def test_gen_7_a_cancelled_turn_returns_and_a_cancelled_task_raises():
    provider = ScriptedProvider([stall(), stall()])
    responses = []

    async def ask():
        responses.append(await conversation.prompt("hi"))

    async with Conversation(provider) as conversation:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            conversation.cancel_response()

        assert responses[0].cancelled

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

        assert len(responses) == 1
        assert conversation.state == "idle"


async def test_rx_7_a_consumer_of_text_alone_gets_the_same_text_and_may_ask_for_events_later():
    script = [TextDelta(0, "a"), TextDelta(0, "b"), MessageStop()]

    async with ScriptedProvider([calls(("now", {}), text="so "), script]) as provider:
        conversation = Conversation(provider, toolkit=[now])

        async with conversation.stream("hi") as stream:
            texts = stream.text_deltas()
            assert [await anext(texts), await anext(texts)] == ["so ", "a"]
            names = [event.name async for event in stream]

    assert names[0] == "content_update"
    assert "message_complete" in names
    assert names[-1] == "state_change"
    assert (await stream.response()).text == "ab"
