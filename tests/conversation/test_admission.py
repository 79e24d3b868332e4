"""Who has the floor: states, refusals, and what becomes of inputs that come while it is taken."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, sketch, talk

from simulacra.conversation import Conversation
from simulacra.errors import AuthenticationError, ConfigurationError, ConnectionFailedError, InvalidStateError
from simulacra.events import ContentUpdate, InputDropped, InputQueued, InputSent, StateChange
from simulacra.messages import TextContent, UserMessage
from simulacra.testing import calls, delay, fault_after, reply, stall
from simulacra.tools import tool
from simulacra.workflows import WorkflowManager

pytestmark = pytest.mark.anyio

SPOKEN = reply(chunks=["One", " two", delay(1), " three", " four", " five"])
FULL = "One two three four five"


@tool
async def look() -> str:
    """Look for a while."""
    await anyio.sleep_forever()
    return "seen"


async def test_conv_1_an_illegal_call_names_state_allowed_ones_and_remedy(ask):
    conversation = talk(stall())
    await ask(lambda: conversation.prompt("hi"))

    with pytest.raises(InvalidStateError) as caught:
        await conversation.prompt("more")

    assert isinstance(caught.value, RuntimeError)
    assert str(caught.value).startswith("invalid state: prompt")
    assert "awaiting_response" in str(caught.value)
    assert caught.value.allowed == ("idle",)
    assert "cancel_response" in caught.value.remedy
    assert len(list(conversation.journal.entries())) == 2  # nothing of the second one


async def test_conv_1_an_async_method_raises_when_awaited():
    conversation = talk()
    await conversation.aclose()
    pending = conversation.prompt("hi")

    with pytest.raises(InvalidStateError, match="disposed"):
        await pending


async def test_conv_31_the_states_of_a_turn(ask):
    conversation = talk("hello", reply(chunks=["a", stall()]), stall())
    heard = Heard(conversation)
    assert conversation.state == "idle"
    await conversation.prompt("1")

    for _ in range(2):
        await ask(lambda: conversation.prompt("2"))
        conversation.cancel_response()
        await ask(anyio.lowlevel.checkpoint)

    await conversation.aclose()
    changes = [(event.previous, event.current) for event in heard.of(StateChange)]

    assert changes == [
        ("idle", "awaiting_response"),
        ("awaiting_response", "streaming_response"),
        ("streaming_response", "idle"),
        ("idle", "awaiting_response"),
        ("awaiting_response", "streaming_response"),
        ("streaming_response", "stopping"),
        ("stopping", "idle"),
        ("idle", "awaiting_response"),
        ("awaiting_response", "stopping"),
        ("stopping", "idle"),
        ("idle", "disposed"),
    ]


def test_conv_31_no_other_change_of_state_exists():
    core = talk().core

    with pytest.raises(InvalidStateError, match="streaming_response"):
        core.move_to("streaming_response")

    assert core.move_to("idle") is None


async def test_conv_9_never_from_idle_to_streaming(fake_clock):
    conversation = talk(*[reply("fast")] * 3)
    heard = Heard(conversation)

    for _ in range(3):
        await conversation.prompt("hi")

    assert ("idle", "streaming_response") not in {(event.previous, event.current) for event in heard.of(StateChange)}


async def test_conv_34_the_floor_is_taken_without_an_await_in_between(fake_clock):
    conversation = talk([delay(0), *reply("one")], "two")
    outcomes = []

    async def go(text):
        try:
            outcomes.append((await conversation.prompt(text)).text)
        except InvalidStateError:
            outcomes.append("refused")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go, "A")
        tasks.start_soon(go, "B")

    assert sorted(outcomes) == ["one", "refused"]
    assert len(conversation.messages) == 2


async def test_conv_34_the_conversation_is_taken_between_the_turns_of_a_workflow(ask):
    conversation = talk(calls(("look", {})), "done", toolkit=[look])
    await ask(lambda: conversation.prompt("hi"))

    assert conversation.state == "idle"
    assert conversation.is_busy

    for call in (lambda: conversation.prompt("more"), lambda: conversation.send_message("more")):
        with pytest.raises(InvalidStateError, match="tool loop"):
            await call()

    for rewrite in (conversation.clear, lambda: conversation.load([])):
        with pytest.raises(InvalidStateError):
            rewrite()


async def test_w_conv_5_two_prompts_never_both_start(ask):
    conversation = talk(stall())
    await ask(lambda: conversation.prompt("A"))
    second = await ask(lambda: conversation.prompt("B"))

    assert isinstance(second.error, InvalidStateError)
    assert len(conversation.provider.requests) == 1


async def test_w_conv_6_a_prompt_during_tools_waits_and_the_results_are_sent(ask):
    go_on = anyio.Event()

    @tool
    async def slow() -> str:
        """Take time."""
        await go_on.wait()
        return "slowly"

    conversation = talk(calls(("slow", {})), "one", "two", toolkit=[slow], when_busy="queue")
    first = await ask(lambda: conversation.prompt("A"))
    second = await ask(lambda: conversation.prompt("B"))
    go_on.set()
    await ask(anyio.lowlevel.checkpoint)

    assert (first.outcome.text, second.outcome.text) == ("one", "two")
    assert sketch(conversation.messages) == ["U A", "A <slow>", "U =slow", "A one", "U B", "A two"]


async def test_d_8_rejecting_is_the_default(ask):
    conversation = talk(stall())
    assert conversation.when_busy == "reject"
    await ask(lambda: conversation.prompt("A"))

    with pytest.raises(InvalidStateError):
        await conversation.prompt("B")


@pytest.mark.parametrize("when_busy", ["queue", "merge", "latest"])
async def test_cc_01_concurrent_prompts_never_interleave(when_busy, fake_clock):
    conversation = talk([delay(0), *reply("one")], "two", when_busy=when_busy)
    responses = {}

    async def go(text):
        responses[text] = await conversation.prompt(text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go, "A")
        tasks.start_soon(go, "B")

    first, second = responses if list(responses) == ["A", "B"] else ("B", "A")

    assert sketch(conversation.messages) == [f"U {first}", "A one", f"U {second}", "A two"]


async def test_cc_r1_state_is_read_in_the_step_that_claims_it(ask):
    conversation = talk(*["x"] * 20, when_busy="queue")
    calls_under_way = [await ask(lambda n=n: conversation.prompt(str(n))) for n in range(20)]

    assert all(call.outcome.text == "x" for call in calls_under_way)
    assert sketch(conversation.messages) == [line for n in range(20) for line in (f"U {n}", "A x")]


def test_conv_34_when_busy_is_one_of_five():
    conversation = talk()

    with pytest.raises(ConfigurationError, match="merge"):
        conversation.when_busy = "later"

    with pytest.raises(ConfigurationError, match="merge"):
        talk(when_busy="later")


# Table T of the dialog rules


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


# Waiting


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
