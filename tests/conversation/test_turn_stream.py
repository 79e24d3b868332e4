"""`Conversation.stream`: events one by one, back-pressure, leaving early, errors, and the outcome."""

from __future__ import annotations

import gc
import warnings

import anyio
import pytest
from conversation_kit import BEGUN, Heard, named, sketch, talk

from simulacra.conversation import Conversation
from simulacra.errors import ConnectionFailedError, InvalidStateError, StreamInterruptedError
from simulacra.events import ContentUpdate, MessageComplete
from simulacra.streaming import ContentStop, MessageStop, TextDelta, ToolArgumentsDelta, ToolCallStart
from simulacra.testing import Fault, ScriptedProvider, calls, fault_after, reply, stall
from simulacra.tools import tool

pytestmark = pytest.mark.anyio

SHOWN = [
    *BEGUN,
    "awaiting_response>streaming_response",
    "message_start",
    "content_start",
    "content_update",
    "content_complete",
    "request_success",
    "history_change",
    "message_complete",
    "streaming_response>idle",
]


class Counting(ScriptedProvider):
    """Counts how many deltas were asked for."""

    def __init__(self, *pieces):
        super().__init__([])
        self.pieces = pieces
        self.pulled = 0

    async def stream(self, request):
        for piece in self.pieces:
            self.pulled += 1
            yield TextDelta(0, piece)

        yield MessageStop()


async def test_w_conv_18_the_events_of_a_turn_in_order():
    conversation = talk("hello")

    async with conversation.stream("hi") as stream:
        names = [named(event) async for event in stream]

    assert names == SHOWN
    assert (await stream.response()).text == "hello"


async def test_text_deltas_are_the_pieces_of_the_text():
    conversation = talk(reply(thinking="hm", chunks=["Hel", "lo"]))

    async with conversation.stream("hi") as stream:
        pieces = [delta async for delta in stream.text_deltas()]
        response = await stream.response()

    assert pieces == ["Hel", "lo"]
    assert response.text == "Hello"
    assert response is await stream.response()


async def test_response_alone_reads_to_the_end():
    conversation = talk("hello")

    async with conversation.stream("hi") as stream:
        assert (await stream.response()).text == "hello"

    assert sketch(conversation.messages) == ["U hi", "A hello"]


async def test_the_events_of_the_tool_loop_come_too():
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    conversation = talk(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])

    async with conversation.stream("1 + 2?") as stream:
        events = [event async for event in stream]

    conversation_events = [event for event in events if hasattr(event, "conversation")]
    assert [named(event) for event in conversation_events].count("message_complete") == 2
    assert (await stream.response()).text == "3"
    assert sketch(conversation.messages) == ["U 1 + 2?", "A <add>", "U =add", "A 3"]


async def test_w_rx_1_a_slow_consumer_slows_the_stream():
    provider = Counting("a", "b", "c", "d")
    conversation = Conversation(provider)
    seen = []

    async with conversation.stream("hi") as stream:
        async for _ in stream.text_deltas():
            seen.append(provider.pulled)

    assert seen == [1, 2, 3, 4]


async def test_w_rx_1_a_slow_listener_slows_the_stream(ask):
    provider = Counting("a", "b", "c")
    conversation = Conversation(provider)
    go_on = anyio.Event()

    async def wait(event):
        await go_on.wait()

    conversation.on(ContentUpdate, wait)
    call = await ask(lambda: conversation.prompt("hi"))

    assert provider.pulled == 1
    go_on.set()
    await ask(anyio.lowlevel.checkpoint)
    assert call.outcome.text == "abc"


async def test_w_rx_3_updates_carry_their_delta():
    conversation = talk(
        [
            TextDelta(0, "a"),
            TextDelta(0, "b"),
            ContentStop(0),
            ToolCallStart(1, "t", "f"),
            ToolArgumentsDelta(1, "{}"),
            MessageStop("tool_use"),
        ]
    )

    async with conversation.stream("hi") as stream:
        updates = [(e.index, e.delta, e.content.text) async for e in stream if isinstance(e, ContentUpdate)]

    assert updates == [(0, "a", "a"), (0, "b", "ab"), (1, "{}", "{}")]


async def test_errors_are_raised_by_the_iteration_and_by_the_outcome():
    conversation = talk(fault_after("Hel", ConnectionFailedError("gone")))
    seen = []

    with pytest.raises(ConnectionFailedError) as caught:
        async with conversation.stream("hi") as stream:
            async for event in stream:
                seen.append(named(event))

    assert seen[-2:] == ["request_error", "streaming_response>idle"]
    assert sketch([caught.value.partial]) == ["A! Hel"]

    with pytest.raises(ConnectionFailedError):
        await stream.response()


async def test_rt_r1_the_pieces_taken_add_up_to_the_partial_reply():
    conversation = talk([TextDelta(0, "a"), TextDelta(0, "b"), Fault(ConnectionFailedError("gone"))])
    taken = []

    async with conversation.stream("hi") as stream:
        with pytest.raises(ConnectionFailedError) as caught:
            async for delta in stream.text_deltas():
                taken.append(delta)

    assert "".join(taken) == caught.value.partial.text == "ab"


@pytest.mark.parametrize("taken", range(1, 8))
async def test_cx_r1_leaving_early_keeps_exactly_what_was_taken(taken):
    conversation = talk(reply(chunks=["a", "b", "c"]), "well")
    pieces = []

    async with conversation.stream("hi") as stream:
        for _ in range(len(BEGUN) + taken):
            event = await anext(stream)

            if isinstance(event, ContentUpdate):
                pieces.append(event.delta)

    response = await stream.response()
    assert response.cancelled
    assert response.text == "".join(pieces)
    assert conversation.provider.open_streams == 0
    assert (await conversation.prompt("new")).text == "well"


async def test_cancel_ends_the_iteration_and_shows_nothing_more_than_is_kept():
    conversation = talk([TextDelta(0, "a"), TextDelta(0, "b"), stall()])
    names, pieces = [], []

    async with conversation.stream("hi") as stream:
        async for event in stream:
            names.append(named(event))

            if event.name == "content_start":
                stream.cancel()
                stream.cancel()
            elif event.name == "content_update":
                pieces.append(event.delta)

    assert pieces == []
    assert names[-4:] == ["streaming_response>stopping", "history_change", "response_cancelled", "stopping>idle"]
    assert sketch(conversation.messages) == ["U hi"]
    stream.cancel()


async def test_leaving_before_the_first_event_sends_nothing_and_keeps_the_input():
    conversation = talk()

    async with conversation.stream("hi") as stream:
        pass

    assert (await stream.response()).cancelled
    assert sketch(conversation.messages) == ["U hi"]
    assert conversation.provider.requests == []


async def test_an_error_in_the_body_comes_out_and_cancels():
    conversation = talk(reply(chunks=["a", stall()]))
    heard = Heard(conversation)

    with pytest.raises(ZeroDivisionError):
        async with conversation.stream("hi") as stream:
            async for _ in stream.text_deltas():
                raise ZeroDivisionError

    assert heard.ends == ["response_cancelled"]
    assert sketch(conversation.messages) == ["U hi", "A* a"]


async def test_a_stream_has_to_be_entered_and_is_entered_once():
    conversation = talk("hello")
    stream = conversation.stream("hi")

    with pytest.raises(InvalidStateError, match="async with"):
        await anext(stream)

    async with stream:
        await stream.response()

    with pytest.raises(InvalidStateError, match="new one"):
        async with stream:
            pass

    assert len(conversation.provider.requests) == 1


async def test_nothing_is_recorded_before_a_stream_is_entered():
    conversation = talk()
    conversation.stream("hi")

    assert list(conversation.journal.entries()) == []
    assert not conversation.is_busy


async def test_w_conv_3_a_stream_without_its_end_is_an_error():
    conversation = talk([TextDelta(0, "Hel")])

    with pytest.raises(StreamInterruptedError):
        async with conversation.stream("hi") as stream:
            await stream.response()


async def test_a_follower_of_a_merged_input_has_the_outcome_and_no_events(ask, fake_clock):
    conversation = talk(stall(), "fine", when_busy="merge")
    seen = []

    async def follow():
        async with conversation.stream("3") as stream:
            seen.extend([event async for event in stream])
            return await stream.response()

    await ask(lambda: conversation.prompt("1"))
    leader = await ask(lambda: conversation.prompt("2"))
    follower = await ask(follow)
    conversation.cancel_response()
    await fake_clock.advance(0)

    assert follower.outcome is leader.outcome
    assert seen == []


async def test_cx_06_no_generator_is_left_to_the_garbage_collector():
    conversation = talk(*[reply(chunks=["a", "b"])] * 3)

    with warnings.catch_warnings():
        warnings.simplefilter("error")

        for _ in range(3):
            async with conversation.stream("hi") as stream:
                async for _delta in stream.text_deltas():
                    break

        del stream
        gc.collect()
        await anyio.lowlevel.checkpoint()

    assert conversation.provider.open_streams == 0


async def test_a_break_at_the_last_event_is_no_cancel():
    conversation = talk("hello")

    async with conversation.stream("hi") as stream:
        async for event in stream:
            if isinstance(event, MessageComplete):
                break

    assert not (await stream.response()).cancelled


async def test_one_stream_can_be_taken_in_several_tasks_in_turn(fake_clock):
    conversation = talk(reply(chunks=["a", "b", "c"]))
    taken = []

    async with conversation.stream("hi") as stream:
        deltas = stream.text_deltas()

        async def take():
            taken.append(await anext(deltas))

        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)

        await stream.response()

    assert taken == ["a", "b", "c"]


async def test_a_listener_that_never_returns_holds_nobody_who_is_cancelled(ask):
    conversation = talk(reply(chunks=["a", "b"]))

    async def stick(event):
        if event.current == "idle":
            await anyio.sleep_forever()

    conversation.on("state_change", stick)

    async def leave():
        async with conversation.stream("hi") as stream:
            async for _ in stream.text_deltas():
                break

    call = await ask(leave)
    assert conversation.state == "idle"
    assert not call.is_over
    call.scope.cancel()
    await ask(anyio.lowlevel.checkpoint)

    assert call.is_over
    assert not conversation.is_busy
