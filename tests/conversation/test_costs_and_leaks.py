"""What is left behind after turns of every kind, and how cost grows, counted instead of timed."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref

import anyio
import pytest
from conversation_kit import talk

from simulacra.conversation import Conversation
from simulacra.emitter import Emitter
from simulacra.errors import ServerError
from simulacra.events import ContentUpdate
from simulacra.messages import AssistantMessage, TextContent, UserMessage
from simulacra.policies import NoopPolicy
from simulacra.provider import ModelProvider
from simulacra.streaming import MessageStop, TextDelta, ToolArgumentsDelta, ToolCallStart
from simulacra.streaming import live as live_blocks
from simulacra.testing import ScriptedProvider, calls, fault, fault_after, reply, stall
from simulacra.tools import tool

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def finish(conversation, ask):
    await conversation.prompt("hi")


async def fail(conversation, ask):
    with pytest.raises(ServerError):
        await conversation.prompt("hi")


async def cancel(conversation, ask):
    await ask(lambda: conversation.prompt("hi"))
    conversation.cancel_response()
    await ask(anyio.lowlevel.checkpoint)


async def leave(conversation, ask):
    async with conversation.stream("hi") as stream:
        async for _ in stream.text_deltas():
            break


async def summarise(conversation, ask):
    conversation.load([UserMessage((TextContent("hi"),))])
    await conversation.checkpoint()


async def dispose_child(conversation, ask):
    child = conversation.spawn_child()
    await child.prompt("hi")
    await child.aclose()


WAYS = {
    "success": (finish, "hello"),
    "early_failure": (fail, fault(ServerError("x"))),
    "late_failure": (fail, fault_after("a", ServerError("x"))),
    "cancel_before": (cancel, stall()),
    "cancel_while": (cancel, reply(chunks=["a", stall()])),
    "leaving": (leave, reply(chunks=["a", "b"])),
    "tools": (finish, calls(("add", {"a": 1, "b": 2}))),
    "checkpoint": (summarise, "a summary"),
    "child": (dispose_child, "hello"),
}


def tasks_under_way():
    if "asyncio" in str(type(anyio.lowlevel.current_token().native_token)):
        return {id(task) for task in asyncio.all_tasks()}

    import trio

    def below(task):
        return {id(task)}.union(*(below(child) for nursery in task.child_nurseries for child in nursery.child_tasks))

    return below(trio.lowlevel.current_root_task())


@pytest.mark.parametrize("name", WAYS)
async def test_w_conv_13_no_task_timer_listener_or_stream_remains(name, ask, fake_clock):
    way, step = WAYS[name]
    conversation = talk(step, otherwise="hello", toolkit=[add], policy=NoopPolicy())
    conversation.on("state_change", lambda event: None)
    before = tasks_under_way()
    await way(conversation, ask)
    core = conversation.core

    assert tasks_under_way() <= before
    assert fake_clock.pending == 0
    assert conversation.provider.open_streams == 0
    assert len(core.emitter._subscriptions) == 1
    assert (core.run, core.floor.holder, core.background._jobs) == (None, None, set())
    assert conversation._children == []


async def test_w_conv_14_a_conversation_is_freed_with_all_its_parts():
    conversation = talk("hello", calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    await conversation.prompt("hi")
    await conversation.prompt("1 + 2?")
    parts = [weakref.ref(part) for part in (conversation, conversation.core, conversation.core.emitter)]
    await conversation.aclose()
    del conversation
    await anyio.wait_all_tasks_blocked()  # timers of trio are tasks, and are gone then
    gc.collect()

    assert [part() for part in parts] == [None, None, None]


class Talkative(ModelProvider):
    """Says a text, or writes arguments, in so many pieces."""

    kind = "talkative"
    model = "m"

    def __init__(self, pieces, *, arguments):
        self.pieces = pieces
        self.arguments = arguments

    async def stream(self, request):
        if self.arguments:
            yield ToolCallStart(0, "t", "add")
            yield ToolArgumentsDelta(0, '{"text": "')

        for _ in range(self.pieces):
            yield ToolArgumentsDelta(0, "x") if self.arguments else TextDelta(0, "x")

        if self.arguments:
            yield ToolArgumentsDelta(0, '"}')

        yield MessageStop()


def count_calls(work):
    """How many Python functions are called."""
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)

    try:
        work()
    finally:
        sys.setprofile(None)

    return count


@pytest.mark.parametrize("arguments", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_w_rx_2_cost_grows_linearly_with_the_deltas(arguments, is_streamed, monkeypatch):
    parses, joined = [], []
    read = live_blocks.from_json
    monkeypatch.setattr(
        live_blocks, "from_json", lambda text, **options: parses.append(len(text)) or read(text, **options)
    )
    text_of = live_blocks.LiveContent.text
    monkeypatch.setattr(live_blocks.LiveContent, "text", property(lambda self: joined.append(1) or text_of.fget(self)))

    async def cost(pieces):
        parses.clear()
        joined.clear()
        conversation = Conversation(Talkative(pieces, arguments=arguments))
        count = 0

        def profile(frame, event, arg):
            nonlocal count
            count += event == "call"

        sys.setprofile(profile)

        try:
            if is_streamed:
                async with conversation.stream("hi") as stream:
                    async for _ in stream:
                        pass
            else:
                await conversation.send_message("hi")
        finally:
            sys.setprofile(None)

        return count, len(parses), len(joined)

    few, many = await cost(500), await cost(4000)

    assert many[0] <= 8.2 * few[0]
    assert many[1:] == few[1:]
    assert few[1] == (1 if arguments else 0)


async def test_w_rx_2_a_live_text_costs_only_who_reads_it():
    conversation = Conversation(Talkative(1000, arguments=False))
    lengths = []
    conversation.on(ContentUpdate, lambda event: lengths.append(len(event.content.pieces)))
    await conversation.prompt("hi")

    assert lengths == list(range(1, 1001))


async def test_w_conv_15_messages_costs_nothing_while_idle():
    conversation = talk()
    conversation.load([UserMessage((TextContent(str(n)),)) for n in range(1000)])

    assert count_calls(lambda: [conversation.messages for _ in range(100)]) <= 100 * 3 + 10
    assert len({id(conversation.messages) for _ in range(10)}) == 1


async def test_a_long_history_costs_no_more_calls_per_turn():
    async def cost(length):
        conversation = Conversation(ScriptedProvider(["a", "b"]))
        history = [
            AssistantMessage((TextContent(str(n)),)) if n % 2 else UserMessage((TextContent(str(n)),))
            for n in range(length)
        ]
        conversation.load(history)
        conversation.core.settings.provider = Talkative(1, arguments=False)
        count = 0

        def profile(frame, event, arg):
            nonlocal count
            count += event == "call"

        sys.setprofile(profile)

        try:
            await conversation.prompt("hi")
        finally:
            sys.setprofile(None)

        return count

    short, long = await cost(10), await cost(2010)

    assert long - short <= 2000 * 3


async def test_w_conv_17_an_event_without_listeners_reaches_no_emitter_per_piece(monkeypatch):
    emitted = []
    emit = Emitter.emit

    async def counting(self, event):
        emitted.append(event.name)
        await emit(self, event)

    monkeypatch.setattr(Emitter, "emit", counting)
    conversation = Conversation(Talkative(100, arguments=False))
    await conversation.prompt("hi")

    assert "content_update" not in emitted
    assert "raw_stream" not in emitted
