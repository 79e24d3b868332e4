"""Inputs that wait for the floor."""

from __future__ import annotations

import anyio
import pytest
from anyio import from_thread
from conversation_kit import Heard, sketch, talk

from simulacra.blocking import run_sync
from simulacra.conversation import Conversation
from simulacra.errors import AuthenticationError, ConfigurationError, InvalidStateError
from simulacra.events import ContentUpdate, InputDropped, InputQueued, InputSent
from simulacra.messages import TextContent, UserMessage
from simulacra.testing import ScriptedProvider, calls, delay, fault_after, reply, stall
from simulacra.tools import ToolContext, tool
from simulacra.workflows import WorkflowManager

pytestmark = pytest.mark.anyio


SPOKEN = reply(chunks=["One", " two", delay(1), " three", " four", " five"])


FULL = "One two three four five"


@tool
async def look() -> str:
    """Look for a while."""
    await anyio.sleep_forever()
    return "seen"


async def test_inputs_that_wait_are_announced_and_listed(ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy="queue")
    heard = Heard(conversation)
    await ask(lambda: conversation.prompt("U1"))
    await ask(lambda: conversation.prompt("U2"))
    (waiting,) = conversation.queued
    (queued,) = heard.of(InputQueued)
    assert waiting.contents[0].text == "U2"
    assert queued.input_id == waiting.input_id
    assert heard.of(InputSent) == []
    await fake_clock.advance(1)

    assert conversation.queued == ()
    assert [event.input_id for event in heard.of(InputSent)] == [waiting.input_id]
    assert heard.of(InputDropped) == []


async def test_merged_inputs_become_one_message_with_one_answer(ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy="merge")
    await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2"))
    third = await ask(lambda: conversation.prompt([TextContent("U3"), TextContent("U4")]))
    await fake_clock.advance(1)

    assert sketch(conversation.messages) == ["U U1", f"A {FULL}", "U U2 U3 U4", "A fine"]
    assert second.outcome is third.outcome
    assert second.outcome.text == "fine"


async def test_merged_inputs_share_a_failure(ask, fake_clock):
    conversation = talk(SPOKEN, fault_after("x", AuthenticationError("no")), when_busy="merge")
    await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2"))
    third = await ask(lambda: conversation.prompt("U3"))
    await fake_clock.advance(1)

    assert isinstance(second.error, AuthenticationError)
    assert third.error is second.error
    assert sketch(conversation.messages) == ["U U1", f"A {FULL}"]


async def test_the_next_one_follows_a_failure(ask, fake_clock):
    conversation = talk([delay(1), *fault_after("x", AuthenticationError("no"))], "fine", when_busy="queue")
    first = await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2"))
    await fake_clock.advance(1)

    assert isinstance(first.error, AuthenticationError)
    assert second.outcome.text == "fine"
    assert sketch(conversation.messages) == ["U U2", "A fine"]


async def test_the_next_one_follows_a_cancel(ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy="queue")
    await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2"))
    conversation.cancel_response()
    await fake_clock.advance(0)

    assert second.outcome.text == "fine"
    assert sketch(conversation.messages) == ["U U1", "A* One two", "U U2", "A fine"]


async def test_an_interrupt_goes_before_what_waits(ask, fake_clock):
    conversation = talk(SPOKEN, "first", "second", when_busy="queue")
    await ask(lambda: conversation.prompt("U1"))
    waiting = await ask(lambda: conversation.prompt("U2"))
    urgent = await ask(lambda: conversation.interrupt("U3"))
    await fake_clock.advance(0)

    assert (urgent.outcome.text, waiting.outcome.text) == ("first", "second")


async def test_at_most_32_inputs_wait(ask, fake_clock):
    conversation = talk(stall(), otherwise="x", when_busy="queue")
    await ask(lambda: conversation.prompt("U1"))
    waiting = [await ask(lambda n=n: conversation.prompt(str(n))) for n in range(32)]

    with pytest.raises(InvalidStateError, match="clear_queue"):
        await conversation.prompt("one too many")

    assert len(conversation.queued) == 32
    assert conversation.clear_queue() == 32
    await fake_clock.advance(0)
    assert {call.outcome.stop_details for call in waiting} == {"dropped"}
    assert all(call.outcome.cancelled for call in waiting)
    assert conversation.queued == ()
    assert conversation.clear_queue() == 0


async def test_a_caller_that_gives_up_takes_its_input_along(ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy="queue")
    heard = Heard(conversation)
    await ask(lambda: conversation.prompt("U1"))
    given_up = await ask(lambda: conversation.prompt("U2"))
    third = await ask(lambda: conversation.prompt("U3"))
    given_up.scope.cancel()
    await fake_clock.advance(1)

    assert given_up.scope.cancelled_caught
    assert third.outcome.text == "fine"
    assert sketch(conversation.messages) == ["U U1", f"A {FULL}", "U U3", "A fine"]
    assert [event.reason for event in heard.of(InputDropped)] == ["withdrawn"]


@pytest.mark.parametrize("when_busy", ["queue", "merge", "interrupt"])
async def test_a_caller_that_gives_up_just_when_it_is_its_turn_keeps_nobody_waiting(when_busy, ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy=when_busy if when_busy != "interrupt" else "queue")
    await ask(lambda: conversation.prompt("U1"))
    leader = await ask(lambda: conversation.prompt("U2"))
    follower = await ask(lambda: conversation.prompt("U3"))
    conversation.when_busy = when_busy
    conversation.on("input_sent", lambda event: leader.scope.cancel())
    conversation.cancel_response()
    await fake_clock.advance(1)

    assert leader.scope.cancelled_caught
    assert follower.outcome.text == "fine"
    assert sketch(conversation.messages) == ["U U1", "A* One two", "U U3", "A fine"]
    assert not conversation.is_busy


async def test_when_busy_may_change_at_any_time(ask, fake_clock):
    conversation = talk(SPOKEN, "fine")
    await ask(lambda: conversation.prompt("U1"))
    conversation.when_busy = "queue"
    second = await ask(lambda: conversation.prompt("U2"))
    await fake_clock.advance(1)

    assert second.outcome.text == "fine"


@pytest.mark.parametrize("when_busy", ["queue", "merge", "latest", "interrupt"])
async def test_a_listener_cannot_wait_for_the_turn_it_listens_to(when_busy):
    conversation = talk("hello", "again", when_busy=when_busy)
    refused = []

    async def insist(event):
        for send in (conversation.prompt, conversation.interrupt, conversation.send_message):
            with pytest.raises(InvalidStateError, match="task of its own") as caught:
                await send("more")

            refused.append(caught.value)

    conversation.on("message_start", insist)

    assert (await conversation.prompt("hi")).text == "hello"
    assert len(refused) == 3
    assert sketch(conversation.messages) == ["U hi", "A hello"]
    assert conversation.queued == ()


async def test_the_loop_over_a_stream_cannot_wait_for_it():
    conversation = talk(reply(chunks=["a", "b"]), "again", when_busy="queue")

    async with conversation.stream("hi") as stream:
        async for event in stream:
            if isinstance(event, ContentUpdate):
                with pytest.raises(InvalidStateError, match="Leave the stream first"):
                    await conversation.prompt("more")

                assert await conversation.interrupt() is None

    assert (await conversation.prompt("more")).text == "again"
    assert sketch(conversation.messages) == ["U hi", "A* a", "U more", "A again"]


async def test_the_body_of_a_stream_cannot_wait_for_it_before_its_first_event():
    conversation = talk("one", "two", when_busy="queue")

    async with conversation.stream("hi"):
        with pytest.raises(InvalidStateError, match="Leave the stream first"):
            await conversation.prompt("more")

    assert (await conversation.prompt("more")).text == "one"


def insisting(kind, send):
    """A tool that tries to send to the conversation that called it, and tells what came of it."""

    @tool(name="insist")
    async def in_task(context: ToolContext) -> str:
        return await refusal(send(context.conversation))

    @tool(name="insist")
    def in_thread(context: ToolContext) -> str:
        return from_thread.run(refusal, send(context.conversation))

    @tool(name="insist")
    def plain(context: ToolContext) -> str:
        return run_sync(refusal(send(context.conversation)))

    @tool(name="insist")
    async def in_child(context: ToolContext) -> str:
        child = context.conversation.spawn_child(
            provider=ScriptedProvider([calls(("ask_up", {})), "done"]), toolkit=[asking_up(context.conversation)]
        )
        await child.prompt("ask above")

        return child.messages[2].content[0].result.output

    def asking_up(parent):
        @tool(name="ask_up")
        async def ask_up() -> str:
            return await refusal(send(parent))

        return ask_up

    return {"task": in_task, "thread": in_thread, "plain thread": plain, "child": in_child}[kind]


async def refusal(sending):
    with pytest.raises(InvalidStateError, match="inside it: in a tool") as caught:
        await sending

    return str(caught.value)


@pytest.mark.parametrize("kind", ["task", "thread", "plain thread", "child"])
@pytest.mark.parametrize("when_busy", ["queue", "merge", "latest", "interrupt"])
async def test_a_tool_cannot_wait_for_the_loop_that_waits_for_it(kind, when_busy):
    insist = insisting(kind, lambda conversation: conversation.prompt("more"))
    conversation = talk(calls(("insist", {})), "done", when_busy=when_busy, toolkit=[insist])

    assert (await conversation.prompt("hi")).text == "done"
    assert "queue_message" in conversation.messages[2].content[0].result.output
    assert (sketch(conversation.messages)[0], conversation.queued) == ("U hi", ())


async def test_a_tool_may_leave_a_prompt_to_a_task_of_its_own():
    answers = []

    async with anyio.create_task_group() as tasks:

        @tool
        async def note(context: ToolContext) -> str:
            async def send():
                answers.append((await context.conversation.prompt("more")).text)

            tasks.start_soon(send)
            return "later"

        conversation = talk(calls(("note", {})), "done", "then", when_busy="queue", toolkit=[note])
        assert (await conversation.prompt("hi")).text == "done"

    assert answers == ["then"]


async def test_a_tool_cannot_run_the_manager_that_waits_for_it():
    insist = insisting("task", lambda conversation: manager.run("more"))
    conversation = talk(calls(("insist", {})), "done", when_busy="queue", toolkit=[insist])
    manager = WorkflowManager(conversation)

    assert (await manager.run("hi")).text == "done"


async def test_a_manager_takes_turns_like_a_prompt(ask, fake_clock):
    conversation = talk(SPOKEN, "fine", when_busy="queue")
    manager = WorkflowManager(conversation)
    first = await ask(lambda: manager.run("U1"))
    second = await ask(lambda: manager.run("U2"))
    await fake_clock.advance(1)

    assert (first.outcome.text, second.outcome.text) == (FULL, "fine")


async def test_cc_05_conversations_share_no_defaults():
    one, other = Conversation(talk().provider), Conversation(talk().provider)
    one.toolkit = [look]
    one.options = one.options.updated(max_tokens=5)

    assert other.toolkit == ()
    assert other.options.max_tokens is None


async def test_an_id_in_use_is_refused(ask, fake_clock):
    conversation = talk(SPOKEN, otherwise="fine", when_busy="queue")
    await ask(lambda: conversation.prompt(UserMessage((TextContent("U1"),), id="mine")))
    same = UserMessage((TextContent("U2"),), id="mine")
    waiting = UserMessage((TextContent("U2"),), id="other")

    with pytest.raises(ConfigurationError, match="'mine'"):
        await conversation.prompt(same)

    await ask(lambda: conversation.prompt(waiting))

    with pytest.raises(ConfigurationError, match="'other'"):
        await conversation.prompt(waiting)

    await fake_clock.advance(1)

    with pytest.raises(ConfigurationError, match="'mine'"):
        await conversation.prompt(same)

    assert [message.id for message in conversation.messages if message.role == "user"] == ["mine", "other"]


async def test_conv_29_settings_of_an_input_that_waited_are_those_of_when_its_turn_starts(ask, fake_clock):
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    conversation = talk(SPOKEN, calls(("add", {"a": 1, "b": 2})), "3", when_busy="queue")
    await ask(lambda: conversation.prompt("U1"))
    second = await ask(lambda: conversation.prompt("U2", top_k=4))
    conversation.options = conversation.options.updated(max_tokens=7)
    conversation.toolkit = [add]
    await fake_clock.advance(1)
    options = conversation.provider.requests[1].options

    assert second.outcome.text == "3"
    assert (options.max_tokens, options.extra) == (7, {"top_k": 4})
    assert sketch(conversation.messages)[2:] == ["U U2", "A <add>", "U =add", "A 3"]
