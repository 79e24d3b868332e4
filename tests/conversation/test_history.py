"""Clearing, loading, identities, and the way from an input to history."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, sketch, talk

from simulacra.conversation import Conversation
from simulacra.errors import (
    ConfigurationError,
    InvalidStateError,
)
from simulacra.events import HistoryChange, PromptSend
from simulacra.messages import (
    AssistantMessage,
    CheckpointState,
    TextContent,
    UserMessage,
)
from simulacra.provider import RequestOptions
from simulacra.testing import ScriptedProvider, stall
from simulacra.tools import tool
from simulacra.transformers import (
    ContextTransformer,
)

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def user(text, **fields):
    return UserMessage((TextContent(text),), **fields)


def answer(text, **fields):
    return AssistantMessage((TextContent(text),), **fields)


async def test_conv_30_clear_and_load_need_an_idle_conversation(ask):
    conversation = talk("one", stall())
    heard = Heard(conversation)
    await conversation.prompt("hi")
    await ask(lambda: conversation.prompt("more"))

    for rewrite in (conversation.clear, lambda: conversation.load([])):
        with pytest.raises(InvalidStateError, match="allowed: idle"):
            rewrite()

    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)
    conversation.clear()
    assert conversation.messages == ()
    conversation.load([user("a", id="1"), answer("b", id="2")])
    assert sketch(conversation.messages) == ["U a", "A b"]
    changes = heard.of(HistoryChange)

    assert [event.reason for event in changes] == ["append", "append", "clear", "load"]
    assert changes[-1].message_ids == ("1", "2")
    assert changes[-1].seq == conversation.journal.head


async def test_w_conv_16_clear_and_load_never_leave_a_stale_checkpoint():
    conversation = talk("one")
    await conversation.prompt("hi")
    first, last = conversation.messages
    early, late = (CheckpointState(message_id=each.id, summary="s") for each in (first, last))
    conversation.checkpoint_state = early
    conversation.checkpoint_state = late
    conversation.load(conversation.messages)
    assert (conversation.checkpoint_state, conversation.checkpoints) == (late, (early, late))

    conversation.load([last])
    assert (conversation.checkpoint_state, conversation.checkpoints) == (late, (late,))

    conversation.load([first])
    assert (conversation.checkpoint_state, conversation.checkpoints) == (None, ())

    conversation.checkpoint_state = early
    conversation.clear()
    assert (conversation.checkpoint_state, conversation.checkpoints) == (None, ())


async def test_msg_8_load_gives_missing_ids_and_refuses_equal_ones(fake_clock):
    conversation = talk("one")
    conversation.load([user("a"), answer("b"), user("c", id="mine", timestamp=5)])
    ids = [message.id for message in conversation.messages]

    assert len(set(ids)) == 3
    assert ids[2] == "mine"
    assert conversation.messages[0].timestamp == fake_clock.now_ms()
    assert conversation.messages[2].timestamp == conversation.messages[2].content[0].timestamp == 5
    before = conversation.messages

    with pytest.raises(ConfigurationError, match="'x'"):
        conversation.load([user("a", id="x"), answer("b", id="x")])

    with pytest.raises(ConfigurationError, match="UserMessage or AssistantMessage"):
        conversation.load([{"role": "user", "content": []}])

    assert conversation.messages is before


async def test_msg_5_an_admitted_message_has_id_and_time(fake_clock):
    conversation = talk("one", "two")
    await conversation.prompt([TextContent("a", timestamp=3), TextContent("b", id="block")])
    await conversation.prompt(user("c", id="mine", timestamp=4))
    first, _, second, _ = conversation.messages

    assert first.id
    assert first.timestamp == fake_clock.now_ms()
    assert [(block.timestamp, block.id) for block in first.content] == [(3, None), (first.timestamp, "block")]
    assert (second.id, second.timestamp, second.content[0].timestamp) == ("mine", 4, 4)


async def test_msg_6_one_id_from_start_to_history():
    conversation = talk("hello")
    heard = Heard(conversation)
    await conversation.prompt("hi")
    shown = {event.message.id for event in heard if event.name in {"message_start", "message_complete"}}
    (opened,) = conversation.journal.entries(kinds=["response_opened"])

    assert shown == {conversation.messages[-1].id} == {opened.body["response_id"]}


async def test_msg_7_equal_texts_have_different_ids(fake_clock):
    one, other = talk(otherwise="same"), talk(otherwise="same")

    for conversation in (one, other):
        await conversation.prompt("same")
        await conversation.prompt("same")

    ids = [message.id for conversation in (one, other) for message in conversation.messages]

    assert len(set(ids)) == 8


async def test_conv_32_admission_comes_first(fake_clock):
    conversation = talk("hello")
    seen = []

    class Watching(ContextTransformer):
        async def transform_prompt(self, messages, context):
            kinds = [entry.kind for entry in conversation.journal.entries()]
            seen.append((kinds, conversation.state, sketch(messages)))

            return messages

    conversation.core.settings.transformer = Watching()
    heard = Heard(conversation)
    conversation.on(PromptSend, lambda event: seen.append([one.kind for one in conversation.journal.entries()]))
    await conversation.prompt("hi")
    admitted, opened, closed = conversation.journal.entries()

    assert seen[0] == ["user_admitted", "response_opened"]
    assert seen[1] == (["user_admitted", "response_opened"], "awaiting_response", ["U hi"])
    assert {entry.body["request_id"] for entry in (admitted, opened, closed)} == {heard[0].request_id}
    assert closed.slot == opened.seq


async def test_conv_32_transformers_run_in_order_both_ways():
    order = []

    class Named(ContextTransformer):
        def __init__(self, name):
            self.name = name

        async def transform_prompt(self, messages, context):
            order.append(f"{self.name} prompt")
            return messages

        async def transform_completion(self, message, context):
            order.append(f"{self.name} completion")
            return message

    provider = ScriptedProvider(["hello"], context_transformers=[Named("first"), Named("second")])
    await Conversation(provider, context_transformer=Named("own")).prompt("hi")

    assert order == [f"{name} {way}" for way in ("prompt", "completion") for name in ("first", "second", "own")]


async def test_w_conv_18_options_per_call():
    conversation = talk("one", "two", options=RequestOptions(max_tokens=5, seed=1))
    await conversation.prompt("1", max_tokens=9, top_k=3)
    await conversation.prompt("2")
    first, second = (request.options for request in conversation.provider.requests)

    assert (first.max_tokens, first.extra) == (9, {"seed": 1, "top_k": 3})
    assert (second.max_tokens, second.extra) == (5, {"seed": 1})

    with pytest.raises(ConfigurationError, match="max_tokens"):
        await conversation.prompt("3", max_tokens=0)


async def test_conv_1_a_wrong_tool_choice_is_refused_before_anything_happens():
    conversation = talk(toolkit=[add])
    heard = Heard(conversation)

    with pytest.raises(ConfigurationError, match="'sub'.*add"):
        await conversation.prompt("hi", tool_choice="sub")

    assert (heard, list(conversation.journal.entries()), conversation.is_busy) == ([], [], False)
