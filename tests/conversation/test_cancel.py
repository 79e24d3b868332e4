"""What a cancel keeps, what it comes too late for, and what cannot hold it up."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import anyio.to_thread
import pytest
from conversation_kit import Heard, sketch, talk
from turn_phases import PHASES, SETTLE, STOPPED, Endless

from simulacra.conversation import Conversation
from simulacra.errors import InvalidStateError
from simulacra.events import ContentUpdate, MessageComplete, ResponseCancelled, StateChange
from simulacra.streaming import (
    ContentExtended,
    ContentStop,
    MessageStop,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallStart,
)
from simulacra.testing import ScriptedProvider, calls, delay, reply, stall

pytestmark = pytest.mark.anyio


async def test_conv_10_a_cancel_after_the_closing_event_comes_too_late(ask):
    conversation = talk("hello", context_transformer=Endless(prompt=False))
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert call.outcome.stop_reason == "end_turn"
    assert sketch(conversation.messages) == ["U hi", "A hello"]
    assert heard.ends == ["request_success"]
    assert heard.names[-4:] == ["request_success", "history_change", "message_complete", "streaming_response>idle"]


@pytest.mark.parametrize(
    "name", ["raw_response", "request_success", "history_change", "message_complete", "state_change"]
)
@pytest.mark.parametrize("native", [False, True])
async def test_conv_10_a_cancel_while_the_end_is_announced_loses_nothing(name, native, ask, fake_clock):
    conversation = talk("hello", "well")
    stuck = anyio.Event()

    async def stick(event):
        if name != "state_change" or event.current == "idle":
            conversation.off(name, stick)
            stuck.set()
            await anyio.sleep_forever()

    conversation.on(name, stick)
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    assert stuck.is_set()
    began = fake_clock.monotonic()

    if native or not conversation.is_busy:
        call.scope.cancel()
    else:
        conversation.cancel_response()

    await fake_clock.advance(SETTLE)

    assert call.ended_at is not None
    assert call.ended_at - began <= SETTLE
    assert sketch(conversation.messages) == ["U hi", "A hello"]
    assert heard.ends == ["request_success"]
    assert conversation.state == "idle"
    assert fake_clock.pending == 0
    assert (await conversation.prompt("new")).text == "well"


@pytest.mark.parametrize("name", ["state_change", "history_change", "response_cancelled"])
async def test_cx_r3_a_listener_that_never_returns_cannot_hold_up_the_cancel(name, ask, fake_clock):
    conversation = talk(reply(chunks=["Hel", stall()]), "well")
    told = []

    async def stick(event):
        if name != "state_change" or event.current == "stopping":
            await anyio.sleep_forever()

    call = await ask(lambda: conversation.prompt("hi"))
    conversation.on(name, stick)
    conversation.on(ResponseCancelled, told.append)
    heard = Heard(conversation)
    began = fake_clock.monotonic()
    conversation.cancel_response()
    await fake_clock.advance(SETTLE)

    assert call.ended_at - began <= SETTLE
    assert call.outcome.text == "Hel"
    assert conversation.state == "idle"
    assert heard.names == ["streaming_response>stopping", "history_change", *STOPPED]
    assert len(told) == 1
    assert fake_clock.pending == 0

    conversation.off(name, stick)
    assert (await conversation.prompt("new")).text == "well"


async def test_cx_r3_a_stream_that_will_not_close_cannot_hold_up_the_cancel(ask, fake_clock):
    class Slow(ScriptedProvider):
        async def stream(self, request):
            try:
                async with aclosing(super().stream(request)) as events:
                    async for event in events:
                        yield event
            finally:
                await anyio.sleep_forever()

    conversation = Conversation(Slow([reply(chunks=["Hel", "lo"])]))
    seen = []

    async def take():
        async with conversation.stream("hi") as stream:
            async for event in stream:
                seen.append(event)

                if isinstance(event, ContentUpdate):
                    break

    began = fake_clock.monotonic()
    call = await ask(take)
    await fake_clock.advance(SETTLE)

    assert call.ended_at - began <= SETTLE
    assert sketch(conversation.messages) == ["U hi", "A* Hel"]


async def test_cx_r3_a_cancel_during_cleanup_changes_nothing(ask, fake_clock):
    conversation = talk(reply(chunks=["Hel", stall()]))
    heard = Heard(conversation)
    conversation.on(StateChange, lambda event: event.current == "stopping" and conversation.cancel_response())
    call = await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await fake_clock.advance(SETTLE)

    assert call.outcome.text == "Hel"
    assert heard.ends == ["response_cancelled"]


async def test_cx_r1_an_open_call_is_dropped_and_a_complete_one_answered_once(ask):
    conversation = talk([
        TextDelta(0, "let me see"),
        ContentStop(0),
        ToolCallStart(1, "t1", "add"),
        ToolArgumentsDelta(1, "{}"),
        ContentStop(1),
        ToolCallStart(2, "t2", "sub"),
        ToolArgumentsDelta(2, '{"a"'),
        stall(),
    ])  # fmt: skip
    heard = Heard(conversation)
    await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)
    _, answer, results = conversation.messages

    assert sketch(conversation.messages) == ["U hi", "A* let me see <add>", "U =add!"]
    assert results.content[0].tool_request_id == answer.content[1].tool_request_id == "t1"
    assert results.content[0].result.message == "cancelled before execution"
    assert heard.names[-4:] == ["streaming_response>stopping", "history_change", *STOPPED]
    assert heard[-3].message_ids == tuple(message.id for message in conversation.messages)


@pytest.mark.parametrize(
    "delivered",
    [[TextDelta(0, " \n"), TextDelta(0, " ")], [ThinkingDelta(0, "hm"), ContentStop(0)], [ThinkingDelta(0, "hm")]],
)
async def test_cx_r2_blank_text_and_unsigned_thinking_leave_no_reply(delivered, ask):
    conversation = talk([*delivered, stall()], "well")
    call = await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert call.outcome.message is None
    assert sketch(conversation.messages) == ["U hi"]


@pytest.mark.parametrize(
    "name", ["transforming", "in_the_policy", "before_connection", "before_first_event", "back_off", "stalled"]
)
async def test_cx_r4_no_request_follows_a_cancel_and_it_is_not_wrapped(name, ask, fake_clock):
    conversation = PHASES[name].start()
    heard = Heard(conversation)
    call = await ask(lambda: conversation.prompt("hi"))
    sent = len(conversation.provider.requests)
    conversation.cancel_response()
    await fake_clock.advance(3600)

    assert call.error is None
    assert len(conversation.provider.requests) == sent
    assert "request_error" not in heard.names


async def test_cx_03_what_the_user_saw_stays_also_when_it_is_loaded_again(ask):
    conversation = talk(reply(chunks=["Hel", "lo", stall()]))
    await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)
    again = talk()
    again.load(conversation.messages)

    assert sketch(conversation.messages) == ["U hi", "A* Hello"]
    assert again.messages == conversation.messages
    assert again.messages[-1].status == "interrupted"


async def test_w_conv_4_a_cancelled_stream_is_closed_between_two_chunks(ask, fake_clock):
    conversation = talk(reply(chunks=["a", delay(100), "b"]))
    await ask(lambda: conversation.prompt("hi"))
    assert conversation.provider.open_streams == 1
    conversation.cancel_response()
    await fake_clock.advance(0)

    assert conversation.provider.open_streams == 0
    assert fake_clock.monotonic() == 0


async def test_conv_30_cancel_response_needs_something_under_way():
    conversation = talk("hello")

    with pytest.raises(InvalidStateError, match="invalid state: cancel_response"):
        conversation.cancel_response()

    await conversation.prompt("hi")

    with pytest.raises(InvalidStateError):
        conversation.cancel_response()

    await conversation.aclose()

    with pytest.raises(InvalidStateError, match="disposed"):
        conversation.cancel_response()


async def test_cx_r3_a_listener_may_cancel():
    conversation = talk(reply(chunks=["Hel", "lo", " you"]))
    conversation.on(ContentUpdate, lambda event: event.delta == "lo" and conversation.cancel_response())
    response = await conversation.prompt("hi")

    assert response.cancelled
    assert sketch(conversation.messages) == ["U hi", "A* Hello"]


async def test_cx_06_twice_with_a_break_and_nothing_stays_open():
    conversation = talk(*[reply(chunks=["Hel", "lo"])] * 2)

    for count in (1, 2):
        async with conversation.stream("hi") as stream:
            async for delta in stream.text_deltas():
                assert delta == "Hel"
                break

        assert conversation.provider.open_streams == 0
        assert conversation.provider.closed_streams == count
        assert (await stream.response()).text == "Hel"

    assert sketch(conversation.messages) == ["U hi", "A* Hel"] * 2


async def test_cx_r3_leaving_at_the_end_of_the_message_keeps_it_whole():
    conversation = talk("hello")

    async with conversation.stream("hi") as stream:
        async for event in stream:
            if isinstance(event, MessageComplete):
                break

    assert (await stream.response()).stop_reason == "end_turn"
    assert sketch(conversation.messages) == ["U hi", "A hello"]
    assert conversation.state == "idle"


async def test_cx_r1_send_message_leaves_no_call_open_either(ask):
    conversation = talk([*calls(("add", {}))[:-1], stall()])
    await ask(lambda: conversation.send_message("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert sketch(conversation.messages) == ["U hi", "A* <add>", "U =add!"]


async def test_t16_signed_thinking_stays_before_a_kept_call_only(ask):
    signed = [ThinkingDelta(0, "hm"), ContentExtended(0, {"signature": "s"}), ContentStop(0)]
    call = [ToolCallStart(1, "t1", "add"), ContentStop(1)]
    kept = talk([*signed, *call, stall()])
    dropped = talk([*signed, TextDelta(1, "so"), stall()])

    for conversation in (kept, dropped):
        await ask(lambda conversation=conversation: conversation.prompt("hi"))
        conversation.cancel_response()
        await ask(anyio.lowlevel.checkpoint)

    assert sketch(kept.messages) == ["U hi", "A* (hm) <add>", "U =add!"]
    assert sketch(dropped.messages) == ["U hi", "A* so"]


async def test_conv_10_the_closing_event_itself_completes_the_turn(ask):
    conversation = talk([TextDelta(0, "hello"), MessageStop()])
    conversation.on("content_complete", lambda event: conversation.cancel_response())
    response = await conversation.prompt("hi")

    assert response.stop_reason == "end_turn"
    assert sketch(conversation.messages) == ["U hi", "A hello"]


async def test_async_listeners_hear_the_end_of_a_turn_whose_task_was_cancelled():
    conversation = talk(reply(chunks=["Hel", stall()]))
    heard = []

    async def hear(event):
        await anyio.lowlevel.checkpoint()
        heard.append(event.name)

    conversation.on("response_cancelled", hear)

    with anyio.CancelScope() as scope:
        conversation.on(ContentUpdate, lambda event: scope.cancel())
        await conversation.prompt("hi")

    assert scope.cancelled_caught
    assert heard == ["response_cancelled"]
