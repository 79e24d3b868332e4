"""Table T of the dialog rules: what an interrupt, or another input, leaves of the response under way."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, sketch, talk

from simulacra.errors import ConnectionFailedError, InvalidStateError
from simulacra.events import InputDropped
from simulacra.testing import calls, delay, fault_after, reply, stall
from simulacra.tools import tool

pytestmark = pytest.mark.anyio


SPOKEN = reply(chunks=["One", " two", delay(1), " three", " four", " five"])


FULL = "One two three four five"


@tool
async def look() -> str:
    """Look for a while."""
    await anyio.sleep_forever()
    return "seen"


async def test_t1_a_whole_turn():
    conversation = talk(FULL)
    await conversation.prompt("U1")

    assert sketch(conversation.messages) == ["U U1", f"A {FULL}"]


async def test_t2_interrupt_keeps_what_was_delivered_and_sends_once(ask):
    conversation = talk(SPOKEN, "fine")
    first = await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.interrupt("U2"))

    assert first.outcome.cancelled
    assert first.outcome.text == "One two"
    assert second.outcome.text == "fine"
    assert sketch(conversation.messages) == ["U U1", "A* One two", "U U2", "A fine"]
    assert len(conversation.provider.requests) == 2
    assert conversation.provider.open_streams == 0


async def test_t3_late_events_change_nothing(ask, fake_clock):
    conversation = talk(SPOKEN, "fine")
    heard = Heard(conversation)
    await ask(lambda: conversation.prompt("U1"))
    await ask(lambda: conversation.interrupt("U2"))
    count = len(heard)
    await fake_clock.advance(10)

    assert sketch(conversation.messages) == ["U U1", "A* One two", "U U2", "A fine"]
    assert len(heard) == count


async def test_t4_nothing_delivered_leaves_no_reply(ask):
    conversation = talk(stall(), "fine")
    await ask(lambda: conversation.prompt("U1"))
    await ask(lambda: conversation.interrupt("U2"))

    assert sketch(conversation.messages) == ["U U1", "U U2", "A fine"]


async def test_t5_two_interrupts_are_as_one(ask):
    conversation = talk(SPOKEN)
    heard = Heard(conversation)
    await ask(lambda: conversation.prompt("U1"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(conversation.interrupt)
        tasks.start_soon(conversation.interrupt)

    assert sketch(conversation.messages) == ["U U1", "A* One two"]
    assert heard.ends == ["response_cancelled"]


async def test_t6_an_interrupt_while_idle():
    conversation = talk("one", "two")

    assert await conversation.interrupt() is None
    assert (await conversation.interrupt("U1")).text == "one"
    assert (await conversation.prompt("U2")).text == "two"
    assert sketch(conversation.messages) == ["U U1", "A one", "U U2", "A two"]


@pytest.mark.parametrize(
    ("when_busy", "expected"),
    [
        ("reject", ["U U1", f"A {FULL}"]),
        ("queue", ["U U1", f"A {FULL}", "U U2", "A fine"]),
        ("merge", ["U U1", f"A {FULL}", "U U2", "A fine"]),
        ("latest", ["U U1", f"A {FULL}", "U U2", "A fine"]),
        ("interrupt", ["U U1", "A* One two", "U U2", "A fine"]),
    ],
)
async def test_t7_an_input_without_interrupt(when_busy, expected, ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy=when_busy)
    await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2"))
    await fake_clock.advance(1)

    assert sketch(conversation.messages) == expected
    assert isinstance(second.error, InvalidStateError) == (when_busy == "reject")


async def test_t8_inputs_before_the_barrier_ends_share_one_request(fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy="interrupt")
    responses = {}

    async def go(text):
        responses[text] = await conversation.prompt(text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go, "U1")
        await fake_clock.advance(0)

        for text in ("U2", "U3"):
            tasks.start_soon(go, text)

    two, three = (text for text in responses if text != "U1")

    assert sorted(sketch(conversation.messages)) == sorted(["U U1", "A* One two", "U U2", "U U3", "A fine"])
    assert responses[two] is responses[three]
    assert responses["U1"].cancelled
    assert len(conversation.provider.requests) == 2


async def test_t8_latest_sends_the_newest_and_logs_the_others(ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy="latest")
    heard = Heard(conversation)
    await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2"))
    third = await ask(lambda: conversation.prompt("U3"))
    await fake_clock.advance(1)
    queued = [entry.body["content"] for entry in conversation.journal.entries(kinds=["input_queued"])]

    assert second.outcome.cancelled
    assert second.outcome.stop_details == "superseded"
    assert third.outcome.text == "fine"
    assert sketch(conversation.messages) == ["U U1", f"A {FULL}", "U U3", "A fine"]
    assert [content[0].text for content in queued] == ["U2", "U3"]
    assert [event.reason for event in heard.of(InputDropped)] == ["superseded"]


async def test_t8_an_interrupt_is_the_newest(ask):
    conversation = talk(SPOKEN, "fine", when_busy="latest")
    await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2"))
    third = await ask(lambda: conversation.interrupt("U3"))

    assert second.outcome.stop_details == "superseded"
    assert third.outcome.text == "fine"


async def test_t8_interrupts_at_once_share_one_request_whatever_the_mode(fake_clock):
    conversation = talk(SPOKEN, "fine")
    responses = {}

    async def start(text):
        responses[text] = await conversation.prompt(text)

    async def interrupt(text):
        responses[text] = await conversation.interrupt(text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start, "U1")
        await fake_clock.advance(0)
        tasks.start_soon(interrupt, "U2")
        tasks.start_soon(interrupt, "U3")

    assert responses["U2"] is responses["U3"]
    assert len(conversation.provider.requests) == 2
    assert sketch(conversation.messages)[-1] == "A fine"


async def test_t9_an_interrupt_without_input_generates_nothing(ask):
    conversation = talk(SPOKEN)
    await ask(lambda: conversation.prompt("U1"))
    assert await conversation.interrupt() is None

    assert sketch(conversation.messages) == ["U U1", "A* One two"]
    assert conversation.state == "idle"
    assert len(conversation.provider.requests) == 1


async def test_t10_a_stream_error_leaves_messages_and_keeps_the_attempt():
    conversation = talk(fault_after("One two", ConnectionFailedError("gone")), "fine")

    with pytest.raises(ConnectionFailedError) as caught:
        await conversation.prompt("U1")

    (attempt,) = conversation.journal.attempts()

    assert sketch([caught.value.partial]) == ["A! One two"]
    assert conversation.messages == ()
    assert sketch([*attempt.inputs, attempt.partial]) == ["U U1", "A! One two"]
    assert "gone" in attempt.error
    assert (await conversation.prompt("U2")).text == "fine"


async def test_t12_a_complete_call_that_was_not_started(ask):
    parts = [*calls(("look", {}), text="let me see")[:-1], stall()]
    conversation = talk(parts, "fine", toolkit=[look])
    await ask(lambda: conversation.prompt("U1"))
    await ask(lambda: conversation.interrupt("U2"))
    (answer,) = conversation.messages[2].content

    assert sketch(conversation.messages) == ["U U1", "A* let me see <look>", "U =look!", "U U2", "A fine"]
    assert answer.result.message == "cancelled before execution"


async def test_t13_a_running_call_is_cancelled(ask):
    conversation = talk(calls(("look", {})), "fine", toolkit=[look])
    await ask(lambda: conversation.prompt("U1"))
    await ask(lambda: conversation.interrupt("U2"))
    (answer,) = conversation.messages[2].content

    assert sketch(conversation.messages) == ["U U1", "A <look>", "U =look!", "U U2", "A fine"]
    assert answer.result.message.startswith("cancelled while running")


async def test_t15_a_finished_call_keeps_its_result(ask):
    @tool
    async def quick() -> str:
        """Be quick."""
        return "done"

    conversation = talk(calls(("quick", {}), ("look", {})), "fine", toolkit=[quick, look])
    await ask(lambda: conversation.prompt("U1"))
    await ask(lambda: conversation.interrupt("U2"))

    assert sketch(conversation.messages) == ["U U1", "A <quick> <look>", "U =quick =look!", "U U2", "A fine"]


async def test_cx_01_every_later_prompt_works_after_a_cancel_during_tools(ask):
    @tool
    async def quick() -> str:
        """Be quick."""
        return "done"

    conversation = talk(calls(("quick", {}, "t1"), ("look", {}, "t2")), "fine", toolkit=[quick, look])
    call = await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)
    done, cut = conversation.messages[2].content

    assert call.outcome.cancelled
    assert (done.tool_request_id, done.result.result) == ("t1", True)
    assert (cut.tool_request_id, cut.result.result) == ("t2", False)
    assert cut.result.message.startswith("cancelled")
    assert (await conversation.prompt("new")).text == "fine"
