from __future__ import annotations

import anyio
import pytest

from simulacra.conversation import Conversation
from simulacra.emitter import Emitter, Event
from simulacra.errors import ConfigurationError, ServerError
from simulacra.events import (
    CONVERSATION_EVENTS,
    ChildEvent,
    ContentUpdate,
    MessageComplete,
    RequestError,
    ResponseCancelled,
)
from simulacra.messages import AssistantMessage, TextContent, Usage
from simulacra.streaming import TextDelta, UsageUpdate
from simulacra.testing import Fault, ScriptedProvider, Stall, reply
from simulacra.usage import StatsUpdate, TokenStats, TokenTracker

pytestmark = pytest.mark.anyio


class Provider:
    model = "fallback-model"


class Talk:
    """As much of a conversation as a tracker sees."""

    def __init__(self, name: str = "main", parent: Talk | None = None) -> None:
        self.id = name
        self.provider = Provider()
        self.reported: list[Exception] = []
        self.emitter = Emitter(
            CONVERSATION_EVENTS, report=self._report, bubble=lambda event: ChildEvent(conversation=self, event=event)
        )
        self.emitter.parent = parent.emitter if parent else None
        self.on = self.emitter.on

    async def _report(self, error: Exception, event: str) -> None:
        self.reported.append(error)

    async def finish(self, usage: Usage, model: str | None = "m1") -> None:
        message = AssistantMessage((TextContent("x"),), model=model, usage=usage)
        await self.emitter.emit(
            MessageComplete(conversation=self, message=message, usage=usage, stop_reason="end_turn")
        )

    async def fail(self, usage: Usage, error: Exception | None = None) -> None:
        error = error or ServerError("boom", model="m1")
        await self.emitter.emit(RequestError(conversation=self, message=None, error=error, metadata={}, usage=usage))

    async def cancel(self, usage: Usage, message: AssistantMessage | None = None) -> None:
        await self.emitter.emit(ResponseCancelled(conversation=self, message=message, usage=usage))


def tokens(read: int, written: int, **further) -> Usage:
    return Usage(input_tokens=read, output_tokens=written, **further)


async def test_util_8_counts_at_message_complete():
    talk = Talk()
    tracker = TokenTracker(talk)
    assert tracker.stats == TokenStats()

    await talk.finish(tokens(10, 2))
    await talk.finish(tokens(20, 3))

    assert tracker.stats.last_request == tokens(20, 3)
    assert tracker.stats.total == tokens(30, 5)


async def test_util_8_counts_what_failed_and_cancelled_turns_reported():
    talk = Talk()
    tracker = TokenTracker(talk)

    await talk.fail(tokens(7, 1))
    await talk.cancel(tokens(5, 1), AssistantMessage((TextContent("x"),), model="m2"))
    await talk.cancel(tokens(3, 0))
    await talk.fail(tokens(1, 0), RuntimeError("no model known"))

    assert tracker.stats.total == tokens(16, 2)
    assert dict(tracker.stats.by_model) == {"m1": tokens(7, 1), "m2": tokens(5, 1), "fallback-model": tokens(4, 0)}


async def test_util_8_turns_that_reported_nothing_leave_the_last_request():
    talk = Talk()
    tracker = TokenTracker(talk)
    updates = []
    await talk.finish(tokens(10, 2))
    tracker.on(StatsUpdate, updates.append)

    await talk.fail(Usage())
    await talk.cancel(Usage())

    assert tracker.stats.last_request == tokens(10, 2)
    assert updates == []


async def test_us_r3_unknown_stays_unknown():
    talk = Talk()
    tracker = TokenTracker(talk)

    await talk.finish(Usage())

    assert tracker.stats.total.input_tokens is None
    assert tracker.stats.total.output_tokens is None


async def test_util_8_descendants_count_once_each():
    talk = Talk()
    child = Talk("child", talk)
    grandchild = Talk("grandchild", child)
    tracker = TokenTracker(talk)

    await talk.finish(tokens(1, 1))
    await child.finish(tokens(10, 1))
    await grandchild.finish(tokens(100, 1))
    await grandchild.fail(tokens(1000, 0))

    assert tracker.stats.total == tokens(1111, 3)
    assert tracker.stats.by_conversation["main"] == tokens(1, 1)
    assert tracker.stats.by_conversation["grandchild"] == tokens(1100, 1)
    assert talk.reported == child.reported == []


async def test_util_8_a_childs_tracker_hears_nothing_of_its_parent():
    talk = Talk()
    child = Talk("child", talk)
    tracker = TokenTracker(child)

    await talk.finish(tokens(1, 1))

    assert tracker.stats == TokenStats()


async def test_w_util_2_cache_reasoning_models_and_children_are_told_apart():
    talk = Talk()
    child = Talk("child", talk)
    tracker = TokenTracker(talk)

    await talk.finish(tokens(10, 5, cache_read_input_tokens=8, reasoning_tokens=4), "m1")
    await child.finish(tokens(20, 6, cache_creation_input_tokens=9), "m2")
    await talk.finish(tokens(1, 1, cache_read_input_tokens=1), None)

    assert tracker.stats.total == tokens(
        31, 12, cache_read_input_tokens=9, cache_creation_input_tokens=9, reasoning_tokens=4
    )
    assert tracker.stats.by_model["m1"].reasoning_tokens == 4
    assert tracker.stats.by_model["m2"] == tokens(20, 6, cache_creation_input_tokens=9)
    assert tracker.stats.by_model["fallback-model"] == tokens(1, 1, cache_read_input_tokens=1)
    assert tracker.stats.by_conversation["child"].output_tokens == 6


async def test_w_util_2_reset_starts_again():
    talk = Talk()
    tracker = TokenTracker(talk)
    seen = []
    await talk.finish(tokens(10, 2))
    tracker.on(StatsUpdate, lambda event: seen.append(event.stats))

    tracker.reset()
    await talk.finish(tokens(1, 1))

    assert tracker.stats.total == tokens(1, 1)
    assert [stats.total for stats in seen] == [Usage(), tokens(1, 1)]


async def test_util_8_stats_update_by_class_name_and_once():
    talk = Talk()
    tracker = TokenTracker(talk)
    heard = []

    async def slowly(event):
        heard.append(("async", event.stats.total.input_tokens))

    unsubscribe = tracker.on("stats_update", lambda event: heard.append(("name", event.stats.total.input_tokens)))
    tracker.on(StatsUpdate, slowly)
    tracker.once(StatsUpdate, lambda event: heard.append(("once", event.tracker is tracker)))
    tracker.on(Event, lambda event: heard.append(("all", event.name)))

    await talk.finish(tokens(1, 0))
    assert heard == [("name", 1), ("async", 1), ("once", True), ("all", "stats_update")]

    heard.clear()
    unsubscribe()
    tracker.off(StatsUpdate, slowly)
    await talk.finish(tokens(2, 0))
    assert heard == [("all", "stats_update")]


async def test_gen_4_unknown_events_are_refused():
    with pytest.raises(ConfigurationError, match="stats_update"):
        TokenTracker(Talk()).on("statsupdate", print)


async def test_util_8_stats_that_were_handed_out_do_not_change():
    talk = Talk()
    tracker = TokenTracker(talk)
    await talk.finish(tokens(1, 1))
    before = tracker.stats

    await talk.finish(tokens(2, 2))

    assert before.total == tokens(1, 1)
    assert dict(before.by_model) == {"m1": tokens(1, 1)}

    with pytest.raises(TypeError):
        before.by_model["m1"] = Usage()


async def test_util_8_a_failing_listener_breaks_nothing(caplog):
    talk = Talk()
    tracker = TokenTracker(talk)
    tracker.on(StatsUpdate, lambda event: 1 / 0)

    await talk.finish(tokens(1, 1))

    assert tracker.stats.total == tokens(1, 1)
    assert talk.reported == []
    assert "ZeroDivisionError" in caplog.text


async def test_util_8_dispose_unsubscribes():
    talk = Talk()
    heard = []

    with TokenTracker(talk) as tracker:
        tracker.on(StatsUpdate, heard.append)
        await talk.finish(tokens(1, 1))

    await talk.finish(tokens(2, 2))
    tracker.dispose()
    await tracker.aclose()

    assert tracker.stats.total == tokens(1, 1)
    assert len(heard) == 1
    assert not talk.emitter.wants(MessageComplete)
    assert not talk.emitter.wants(ContentUpdate)
    assert not talk.emitter.hears_descendants()

    async with TokenTracker(talk):
        assert talk.emitter.wants(MessageComplete)

    assert not talk.emitter.wants(MessageComplete)


async def test_util_8_counts_the_turns_of_a_conversation_and_its_children(fake_clock):
    script = [
        reply("one", usage=tokens(10, 2)),
        reply("two", usage=tokens(20, 3)),
        [UsageUpdate(tokens(5, 0)), TextDelta(0, "half"), UsageUpdate(tokens(5, 1)), Fault(ServerError("boom"))],
        [UsageUpdate(tokens(7, 0)), TextDelta(0, "half"), Stall()],
    ]
    conversation = Conversation(ScriptedProvider(script, model="m1"), id="main")
    child = conversation.spawn_child(id="child")
    tracker = TokenTracker(conversation)
    totals = []
    tracker.on(StatsUpdate, lambda event: totals.append(event.stats.total))

    await conversation.prompt("first")
    await child.prompt("second")

    with pytest.raises(ServerError):
        await child.prompt("third")

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.prompt, "fourth")
        await fake_clock.advance(1)
        conversation.cancel_response()

    assert totals == [tokens(10, 2), tokens(30, 5), tokens(35, 6), tokens(42, 6)]
    assert tracker.stats.last_request == tokens(7, 0)
    assert dict(tracker.stats.by_model) == {"m1": tokens(42, 6)}
    assert dict(tracker.stats.by_conversation) == {"main": tokens(17, 2), "child": tokens(25, 4)}
