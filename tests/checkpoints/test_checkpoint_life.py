"""How a checkpoint begins, runs beside the conversation, and ends."""

from __future__ import annotations

import anyio
import pytest

from simulacra.checkpoints import CheckpointConfig
from simulacra.conversation import Conversation
from simulacra.emitter import Event
from simulacra.errors import ConfigurationError, InvalidStateError, OperationCancelledError, ProtocolError
from simulacra.events import CheckpointBegin, CreateChild, LifecycleError, RequestError
from simulacra.messages import AssistantMessage, CheckpointState, TextContent, UserMessage
from simulacra.policies import RetryPolicy
from simulacra.streaming import ContentStop, MessageStop, TextDelta
from simulacra.testing import Delay, ScriptedProvider, Stall, calls, reply
from simulacra.tools import tool
from simulacra.workflows import WorkflowManager

pytestmark = pytest.mark.anyio


async def talk(*replies, **facts) -> tuple[Conversation, ScriptedProvider]:
    """A conversation after one turn; the script goes on with `replies`."""
    provider = ScriptedProvider(["one", *replies])
    conversation = Conversation(provider, **facts)
    await conversation.prompt("first")

    return conversation, provider


def texts(messages) -> list[str]:
    return [block.text for message in messages for block in message.content]


async def test_cp_1_it_returns_the_state_and_keeps_it():
    conversation, _ = await talk("they talked")

    state = await conversation.checkpoint()

    assert state == CheckpointState(message_id=conversation.messages[-1].id, summary="they talked")
    assert conversation.checkpoint_state == state
    assert conversation.checkpoints == (state,)


async def test_cp_1_there_must_be_something_to_summarise():
    conversation = Conversation(ScriptedProvider(["one", "they talked", "two", "and again"]))

    with pytest.raises(InvalidStateError, match="no messages to checkpoint"):
        await conversation.checkpoint()

    await conversation.prompt("first")
    await conversation.checkpoint()

    with pytest.raises(InvalidStateError, match="no new messages since last checkpoint"):
        await conversation.checkpoint()

    await conversation.prompt("second")
    assert (await conversation.checkpoint()).summary == "and again"


async def test_cp_1_only_while_the_state_is_idle(fake_clock):
    conversation, _ = await talk([Delay(5), *reply("two")])

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.prompt, "second")
        await fake_clock.advance(1)

        with pytest.raises(InvalidStateError, match="awaiting_response"):
            await conversation.checkpoint()

        await fake_clock.advance(10)

    await conversation.aclose()

    with pytest.raises(InvalidStateError, match="disposed"):
        await conversation.checkpoint()


async def test_cp_1_a_second_one_while_one_runs_is_refused(fake_clock):
    conversation, _ = await talk([Delay(5), *reply("they talked")])

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.checkpoint)
        await fake_clock.advance(1)

        with pytest.raises(InvalidStateError):
            await conversation.checkpoint()

        await fake_clock.advance(10)

    assert conversation.checkpoint_state.summary == "they talked"


async def test_cp_1_it_is_possible_while_tools_run():
    made = []

    @tool
    async def look() -> str:
        "Look."
        made.append(await conversation.checkpoint())

        return "seen"

    provider = ScriptedProvider([calls(("look", {})), "they are looking", "done"])
    conversation = Conversation(provider, toolkit=[look])
    WorkflowManager(conversation)
    response = await conversation.prompt("go")

    assert response.text == "done"
    assert made == [conversation.checkpoint_state]
    assert made[0].summary == "they are looking"
    sent = [[block.type for block in message.content] for message in provider.requests[-1].messages]
    assert sent == [["text"], ["tool"], ["tool_result"]]


async def test_cp_4_the_order_of_events():
    conversation, _ = await talk("they talked")
    heard = []
    conversation.on(Event, heard.append)

    await conversation.checkpoint()

    names = [event.name for event in heard]
    inner = [event.event.name for event in heard if event.name == "child_event"]
    outer = [name for name in names if name != "child_event"]
    assert outer[:3] == ["create_child", "checkpoint_begin", "checkpoint_complete"]
    assert names[:2] == ["create_child", "checkpoint_begin"]
    assert inner.index("message_complete") < inner.index("dispose")
    complete = names.index("checkpoint_complete")
    assert [event.event.name for event in heard[complete + 1 :]] == ["dispose", "state_change"]
    assert "state_change" not in outer
    assert conversation.state == "idle"


async def test_cp_4_the_conversation_may_be_prompted_meanwhile(fake_clock):
    conversation, _ = await talk([Delay(5), *reply("they talked")], "two")

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.checkpoint)
        await fake_clock.advance(1)
        assert conversation.state == "idle"
        assert (await conversation.prompt("second")).text == "two"
        await fake_clock.advance(10)

    assert conversation.checkpoint_state.summary == "they talked"


async def test_cp_5_the_child_is_marked_and_bare():
    @tool
    def look() -> str:
        "Look."
        return "seen"

    policy = RetryPolicy(2, 1, 1)
    conversation, provider = await talk("they talked", system="be kind", toolkit=[look], policy=policy)
    children = []
    conversation.on(CheckpointBegin, lambda event: children.append((event.child, event.child.state)))

    await conversation.checkpoint()

    ((child, state_then),) = children
    assert (child.is_checkpoint, conversation.is_checkpoint) == (True, False)
    assert child.parent is conversation
    assert state_then == "idle"
    assert child.state == "disposed"
    assert provider.requests[1].system == ()
    assert provider.requests[1].tools == ()
    assert child.core.settings.policy is policy
    assert child.core.settings.transformer is conversation.core.settings.transformer


async def test_cp_6_the_summary_is_the_text_of_the_reply_joined_by_newlines():
    blocks = [TextDelta(0, "they"), ContentStop(0), TextDelta(1, "talked"), ContentStop(1), MessageStop("end_turn")]
    conversation, _ = await talk(blocks)

    assert (await conversation.checkpoint()).summary == "they\ntalked"


@pytest.mark.parametrize(
    "bad", [reply(" \n"), reply("cut", stop_reason="max_tokens"), reply("no", stop_reason="refusal")]
)
async def test_cp_6_what_is_no_summary_makes_no_checkpoint(bad):
    conversation, _ = await talk(bad)

    with pytest.raises(ProtocolError):
        await conversation.checkpoint()

    assert conversation.checkpoint_state is None
    assert conversation.checkpoints == ()


async def test_cp_7_the_boundary_is_the_end_of_history_when_it_began(fake_clock):
    conversation, provider = await talk([Delay(5), *reply("they talked")], "two", "three")
    boundary = conversation.messages[-1].id

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.checkpoint)
        await fake_clock.advance(1)
        await conversation.prompt("second")
        await fake_clock.advance(10)

    assert conversation.checkpoint_state.message_id == boundary
    assert [entry.kind for entry in conversation.journal.entries() if entry.kind == "checkpoint"] == ["checkpoint"]
    await conversation.prompt("third")
    assert texts(provider.requests[-1].messages)[1:] == ["one", "second", "two", "third"]


async def test_w_cp_1_a_message_sent_while_the_summary_is_made_is_in_the_next_request(fake_clock):
    conversation, provider = await talk([Delay(5), *reply("they talked")], "two", "three")

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.checkpoint)
        await fake_clock.advance(1)
        await conversation.prompt("do not forget this")
        await fake_clock.advance(10)

    await conversation.prompt("third")
    assert "do not forget this" in texts(provider.requests[-1].messages)


async def checkpoint_that_is(conversation: Conversation, end, fake_clock) -> tuple[BaseException, list[Event]]:
    """Begin a checkpoint, do something to its child or its parent, and return how it ended."""
    children, announced, raised = [], [], []
    conversation.on(CreateChild, lambda event: children.append(event.child))
    conversation.on(LifecycleError, announced.append)

    async def make():
        try:
            await conversation.checkpoint()
        except Exception as error:
            raised.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(make)
        await fake_clock.advance(1)
        await end(children[0])
        await fake_clock.advance(0.1)
        assert raised, "the checkpoint did not settle"

    assert children[0].state == "disposed"

    return raised[0], announced


async def test_w_cp_2_cancelling_the_child_settles_the_call(fake_clock):
    conversation, _ = await talk([Stall()], "they talked")

    async def end(child):
        child.cancel_response()

    error, announced = await checkpoint_that_is(conversation, end, fake_clock)

    assert isinstance(error, OperationCancelledError)
    assert [event.operation for event in announced] == ["checkpoint"]
    assert conversation.checkpoint_state is None
    assert (await conversation.checkpoint()).summary == "they talked"


async def test_cp_8_disposing_the_child_settles_the_call(fake_clock):
    conversation, _ = await talk([Stall()], "they talked")

    async def end(child):
        await child.aclose()

    error, announced = await checkpoint_that_is(conversation, end, fake_clock)

    assert isinstance(error, OperationCancelledError)
    assert [event.operation for event in announced] == ["checkpoint"]
    assert (await conversation.checkpoint()).summary == "they talked"


async def test_cp_8_disposing_the_conversation_settles_the_call(fake_clock):
    conversation, provider = await talk([Stall()])

    async def end(child):
        await conversation.aclose()

    error, _ = await checkpoint_that_is(conversation, end, fake_clock)

    assert isinstance(error, OperationCancelledError)
    assert provider.open_streams == 0


async def test_cp_8_cancelling_the_awaiting_task_leaves_nothing_behind(fake_clock):
    conversation, provider = await talk([Stall()], "they talked")

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.checkpoint)
        await fake_clock.advance(1)
        group.cancel_scope.cancel()

    assert provider.open_streams == 0
    assert conversation.checkpoint_state is None
    assert (await conversation.checkpoint()).summary == "they talked"


async def test_cp_8_a_failure_leaves_the_old_checkpoint():
    conversation, provider = await talk("summary 1", "two", reply(""))
    old = await conversation.checkpoint()
    await conversation.prompt("second")

    with pytest.raises(ProtocolError):
        await conversation.checkpoint()

    assert conversation.checkpoint_state == old
    assert provider.open_streams == 0


async def test_cp_9_every_message_can_be_a_boundary():
    provider = ScriptedProvider(["they talked"])
    conversation = Conversation(provider)
    conversation.load([UserMessage((TextContent("first"),)), AssistantMessage((TextContent("one"),))])

    state = await conversation.checkpoint()

    assert state.message_id
    assert state.message_id == conversation.messages[-1].id


async def test_w_cp_3_a_failure_is_raised_and_announced_exactly_once():
    conversation, _ = await talk(reply(""))
    heard = []
    conversation.on(LifecycleError, heard.append)
    conversation.on(RequestError, heard.append)

    with pytest.raises(ProtocolError) as caught:
        await conversation.checkpoint()

    assert [(event.name, event.error, event.operation) for event in heard] == [
        ("lifecycle_error", caught.value, "checkpoint")
    ]


async def test_w_cp_4_another_provider_may_write_the_summary():
    cheap = ScriptedProvider(["cheap summary"], model="cheap")
    conversation, provider = await talk()

    state = await conversation.checkpoint(CheckpointConfig(provider=cheap))

    assert state.summary == "cheap summary"
    assert len(provider.requests) == 1
    assert conversation.provider is provider


async def test_w_cp_5_assigning_an_earlier_state_rolls_back():
    conversation, provider = await talk("summary 1", "two", "summary 2", "three", "four")
    first = await conversation.checkpoint()
    await conversation.prompt("second")
    second = await conversation.checkpoint()
    assert conversation.checkpoints == (first, second)

    conversation.checkpoint_state = first
    await conversation.prompt("third")
    assert texts(provider.requests[-1].messages)[0].splitlines()[1] == "summary 1"
    assert texts(provider.requests[-1].messages)[1:] == ["one", "second", "two", "third"]

    conversation.checkpoint_state = None
    await conversation.prompt("fourth")
    assert texts(provider.requests[-1].messages)[0] == "first"

    with pytest.raises(ConfigurationError):
        conversation.checkpoint_state = CheckpointState(message_id="nowhere", summary="x")


async def test_w_cp_8_forked_children_inherit_the_checkpoint_and_others_do_not():
    conversation, provider = await talk("they talked", "from the fork", "from a fresh child")
    state = await conversation.checkpoint()

    fork = conversation.spawn_child(fork_session=True)
    fresh = conversation.spawn_child()

    assert fork.checkpoint_state == state
    assert fresh.checkpoint_state is None
    await fork.prompt("second")
    assert texts(provider.requests[-1].messages)[1:] == ["one", "second"]
    assert texts(provider.requests[-1].messages)[0].splitlines()[1] == "they talked"
    await fresh.prompt("hello")
    assert texts(provider.requests[-1].messages) == ["hello"]
