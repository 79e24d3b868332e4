"""Who has the floor: states, and refusals while it is taken."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, sketch, talk

from simulacra.errors import ConfigurationError, InvalidStateError
from simulacra.events import StateChange
from simulacra.testing import calls, delay, reply, stall
from simulacra.tools import tool

pytestmark = pytest.mark.anyio


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
