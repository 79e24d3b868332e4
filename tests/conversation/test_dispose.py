"""The end of a conversation."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, sketch, talk

from simulacra.errors import ConfigurationError, InvalidStateError
from simulacra.events import Dispose
from simulacra.testing import calls, reply, stall
from simulacra.tools import tool

pytestmark = pytest.mark.anyio


async def test_conv_21_dispose_cancels_and_ends(ask):
    conversation = talk(reply(chunks=["Hel", stall()]))
    heard = Heard(conversation)
    states = []
    call = await ask(lambda: conversation.prompt("hi"))
    conversation.on(Dispose, lambda event: states.append(conversation.state))
    count = len(heard.names)
    await conversation.aclose()

    assert call.outcome.cancelled
    assert call.outcome.text == "Hel"
    assert sketch(conversation.messages) == ["U hi", "A* Hel"]
    assert heard.names[count:] == [
        "streaming_response>stopping",
        "history_change",
        "response_cancelled",
        "stopping>idle",
        "dispose",
        "idle>disposed",
    ]
    assert states == ["idle"]
    assert not conversation.core.emitter._subscriptions


async def test_conv_21_waiting_callers_get_a_cancelled_response(ask):
    conversation = talk(stall(), when_busy="queue")
    await ask(lambda: conversation.prompt("1"))
    waiting = await ask(lambda: conversation.prompt("2"))
    await conversation.aclose()
    await ask(anyio.lowlevel.checkpoint)

    assert waiting.outcome.cancelled
    assert waiting.outcome.stop_details == "disposed"


async def test_conv_21_tools_under_way_are_cancelled(ask, fake_clock):
    @tool
    async def look() -> str:
        """Look."""
        await anyio.sleep_forever()
        return ""

    conversation = talk(calls(("look", {})), toolkit=[look])
    call = await ask(lambda: conversation.prompt("hi"))
    await conversation.aclose()
    await ask(anyio.lowlevel.checkpoint)

    assert call.outcome.cancelled
    assert sketch(conversation.messages) == ["U hi", "A <look>", "U =look!"]
    assert fake_clock.pending == 0


async def test_gen_6_disposing_again_does_nothing():
    conversation = talk("one")
    heard = Heard(conversation)

    async with conversation:
        await conversation.aclose()

    await conversation.aclose()
    assert heard.names == ["dispose", "idle>disposed"]


async def test_conv_21_a_cancelled_task_disposes_all_the_same(ask):
    conversation = talk(reply(chunks=["Hel", stall()]))
    child = conversation.spawn_child()
    heard = Heard(conversation)

    async def use():
        async with conversation:
            await conversation.prompt("hi")

    call = await ask(use)
    call.scope.cancel()
    await ask(anyio.lowlevel.checkpoint)

    assert call.scope.cancelled_caught
    assert (conversation.state, child.state) == ("disposed", "disposed")
    assert sketch(conversation.messages) == ["U hi", "A* Hel"]
    assert heard.names[-2:] == ["dispose", "idle>disposed"]


async def test_conv_21_a_slow_listener_cannot_keep_a_cancelled_task(ask):
    conversation = talk()

    async def stick(event):
        await anyio.sleep_forever()

    conversation.on(Dispose, stick)
    heard = Heard(conversation)
    call = await ask(conversation.aclose)
    assert conversation.state == "idle"
    call.scope.cancel()
    await ask(anyio.lowlevel.checkpoint)

    assert call.is_over
    assert conversation.state == "disposed"
    assert heard.names == ["dispose", "idle>disposed"]


async def test_conv_27_a_slow_listener_of_a_child_cannot_keep_a_cancelled_task(ask):
    parent = talk()
    children = [parent.spawn_child() for _ in range(3)]

    async def stick(event):
        await anyio.sleep_forever()

    for child in children:
        child.on(Dispose, stick)

    heard = Heard(parent)
    call = await ask(parent.aclose)
    assert not call.is_over
    call.scope.cancel()
    await ask(anyio.lowlevel.checkpoint)

    assert call.is_over
    assert {each.state for each in (parent, *children)} == {"disposed"}
    assert heard.names[-2:] == ["dispose", "idle>disposed"]


async def test_conv_21_a_listener_may_dispose():
    conversation = talk(reply(chunks=["Hel", "lo"]))
    heard = Heard(conversation)

    async def leave(event):
        await conversation.aclose()

    conversation.on("content_update", leave)
    response = await conversation.prompt("hi")

    assert response.cancelled
    assert conversation.state == "disposed"
    assert heard.names[-2:] == ["dispose", "streaming_response>disposed"]
    assert sketch(conversation.messages) == ["U hi", "A* Hel"]
    assert conversation.provider.open_streams == 0


async def test_after_dispose_nothing_can_be_sent_or_changed():
    conversation = talk()
    await conversation.aclose()
    conversation.on("state_change", print)
    conversation.once("state_change", print)
    conversation.off("state_change", print)

    for call in (conversation.prompt, conversation.send_message, conversation.interrupt):
        with pytest.raises(InvalidStateError, match="disposed.*new Conversation"):
            await call("hi")

    with pytest.raises(InvalidStateError, match="disposed"):
        async with conversation.stream("hi"):
            pass

    with pytest.raises(InvalidStateError, match="disposed"):
        await conversation.checkpoint()

    with pytest.raises(InvalidStateError, match="disposed"):
        await conversation.interrupt()

    for sync in (
        conversation.clear,
        lambda: conversation.load([]),
        conversation.cancel_response,
        conversation.spawn_child,
    ):
        with pytest.raises(InvalidStateError, match="disposed"):
            sync()

    assert conversation.clear_queue() == 0
    assert conversation.messages == ()
    assert "disposed" in repr(conversation)


async def test_while_it_ends_nothing_new_begins(ask):
    conversation = talk("one")
    refused = []

    async def insist(event):
        for call in (lambda: conversation.prompt("hi"), conversation.checkpoint):
            with pytest.raises(InvalidStateError, match="disposed") as caught:
                await call()

            refused.append(caught)

        with pytest.raises(InvalidStateError, match="disposed"):
            conversation.system = "x"

    conversation.on(Dispose, insist)
    await conversation.aclose()

    assert len(refused) == 2


async def test_conv_21_a_consumer_that_does_not_come_back_cannot_hold_the_end_up(ask, fake_clock):
    conversation = talk(reply(chunks=["Hel", "lo"]))
    go_on = anyio.Event()

    async def dawdle():
        async with conversation.stream("hi") as stream:
            async for event in stream:
                if event.name == "content_update":
                    await go_on.wait()

    consumer = await ask(dawdle)
    closing = await ask(conversation.aclose)
    await fake_clock.advance(1)

    assert closing.is_over
    assert conversation.state == "disposed"
    go_on.set()
    await fake_clock.advance(1)
    assert consumer.is_over
    assert conversation.provider.open_streams == 0
    assert sketch(conversation.messages) == ["U hi", "A* Hel"]


def test_with_works_in_plain_scripts():
    with talk("one") as conversation:
        assert conversation.prompt_sync("hi").text == "one"

    assert conversation.state == "disposed"


async def test_with_is_refused_inside_a_loop():
    with pytest.raises(InvalidStateError, match="async with"), talk():
        pass


async def test_conv_3_unknown_events_are_refused_until_the_end():
    conversation = talk()

    with pytest.raises(ConfigurationError, match="known events"):
        conversation.once("finished", print)


async def test_conv_21_who_disposes_again_waits_for_the_first_to_have_done_it(group):
    conversation = talk()
    entered, opened = anyio.Event(), anyio.Event()
    seen = []

    async def hold(event):
        entered.set()
        await opened.wait()

    async def close_again():
        await conversation.aclose()
        seen.append(conversation.state)

    conversation.on(Dispose, hold)
    group.start_soon(conversation.aclose)
    await entered.wait()
    group.start_soon(close_again)
    await anyio.wait_all_tasks_blocked()
    assert seen == []

    opened.set()
    await anyio.wait_all_tasks_blocked()
    assert seen == ["disposed"]


async def test_conv_21_a_listener_that_disposes_again_holds_up_nothing():
    conversation = talk()
    conversation.on(Dispose, lambda event: conversation.aclose())
    await conversation.aclose()

    assert conversation.state == "disposed"


async def test_conv_21_who_disposes_again_of_what_hangs_waits_for_a_bounded_time(group, fake_clock):
    conversation = talk()

    async def hang(event):
        await anyio.sleep_forever()

    conversation.on(Dispose, hang)
    group.start_soon(conversation.aclose)
    await anyio.wait_all_tasks_blocked()
    began = fake_clock.monotonic()
    again = anyio.Event()

    async def close_again():
        await conversation.aclose()
        again.set()

    group.start_soon(close_again)
    await anyio.wait_all_tasks_blocked()
    assert not again.is_set()

    await fake_clock.advance(1.0)
    await again.wait()
    assert fake_clock.monotonic() - began == 1.0
