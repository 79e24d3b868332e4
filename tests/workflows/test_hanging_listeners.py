"""Listeners of a tool loop that never return: a cancel still ends it in time, and the others hear its whole end."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from tool_loops import Asked, Door, Log, add, outcomes, settle, shapes

from simulacra.emitter import Event
from simulacra.testing import calls
from simulacra.workflows.events import (
    ForwardedWorkflowEvent,
    ManagerStateChange,
    MessageDequeued,
    WorkflowBegin,
    WorkflowDispose,
    WorkflowEnd,
    WorkflowStateChange,
    WorkflowUpdate,
)

pytestmark = pytest.mark.anyio

END = ["state_change", "workflow_end", "dispose", "state_change"]


class Hanging:
    """A listener that never returns, but for the events it does not care for."""

    def __init__(self, when=lambda event: True):
        self.is_in = anyio.Event()
        self._when = when

    async def __call__(self, event):
        if self._when(event):
            self.is_in.set()
            await anyio.sleep_forever()


def to(state):
    return lambda event: event.current == state


async def ended_within(asked, clock, seconds):
    await clock.advance(seconds)
    await settle()

    return asked.ended.is_set()


@pytest.mark.parametrize(
    ("kind", "when"),
    [
        (WorkflowStateChange, to("busy")),
        (WorkflowUpdate, lambda event: event.message.role == "user"),
        (WorkflowUpdate, lambda event: event.message.role == "assistant"),
        (MessageDequeued, lambda event: True),
        (WorkflowStateChange, to("idle")),
        (WorkflowEnd, lambda event: True),
        (WorkflowDispose, lambda event: True),
        (WorkflowStateChange, to("disposed")),
    ],
)
async def test_w_conv_1_a_cancel_ends_a_run_whose_workflow_has_a_listener_that_hangs(
    managed, group, fake_clock, kind, when
):
    manager, _ = managed(calls(("add", {"a": 1, "b": 2})), "one", "two", "new", toolkit=[add])
    hanging = Hanging(when)
    heard = Log()

    def begin(event):
        event.workflow.on(kind, hanging)
        heard.hear("W", event.workflow)

    manager.once(WorkflowBegin, begin)
    manager.on(ForwardedWorkflowEvent, lambda event: heard.events.append(("M", event.event)))

    if kind is MessageDequeued:
        manager.queue_message("more")

    asked = Asked(group, manager.run, "go")
    await hanging.is_in.wait()
    manager.conversation.cancel_response()

    assert await ended_within(asked, fake_clock, 0.1)
    assert asked.outcome.reason in ("cancel", "complete")
    assert not manager.conversation.is_busy
    assert manager.state == "idle"
    assert heard.names("W")[-4:] == heard.names("M")[-4:] == END
    assert [event.result for who, event in heard.events if who == "W" and event.name == "workflow_end"] == [
        asked.outcome
    ]


@pytest.mark.parametrize("state", ["busy", "idle"])
async def test_w_conv_1_a_cancel_ends_a_run_whose_manager_has_a_listener_that_hangs(managed, group, fake_clock, state):
    door = Door()
    manager, _ = managed(calls(("door", {})), toolkit=[door.tool])
    hanging = Hanging(to(state))
    manager.on(ManagerStateChange, hanging)
    asked = Asked(group, manager.run, "go")

    if state == "idle":
        await door.entered.wait()
        manager.conversation.cancel_response()
    else:
        await hanging.is_in.wait()
        manager.conversation.cancel_response()

    assert await ended_within(asked, fake_clock, 0.1)
    assert asked.outcome.reason == "cancel"
    assert manager.state == "idle"
    assert shapes(manager.conversation.messages)[0] == "user"


@pytest.mark.parametrize("while_tools_run", [True, False])
async def test_w_conv_1_a_listener_that_hangs_at_the_results_holds_up_no_cancel(
    managed, group, fake_clock, while_tools_run
):
    door = Door()
    manager, provider = managed(calls(("door", {})), "new", toolkit=[door.tool])
    hanging = Hanging(lambda event: shapes([manager.conversation.messages[-1]]) == ["results"])
    off = manager.conversation.on("history_change", hanging)
    heard = Log()
    heard.hear("C", manager.conversation, "history_change")
    asked = Asked(group, manager.run, "go")
    await door.entered.wait()

    if while_tools_run:
        manager.conversation.cancel_response()
    else:
        door.opened.set()
        await hanging.is_in.wait()
        manager.conversation.cancel_response()

    assert await ended_within(asked, fake_clock, 0.1)
    off()
    assert asked.outcome.reason == "cancel"
    assert asked.outcome.messages == manager.conversation.messages
    assert outcomes(manager.conversation.messages[-1])[0]["result"] is not while_tools_run
    assert heard.events[-1][1].message_ids == (manager.conversation.messages[-1].id,)
    assert len(provider.requests) == 1
    assert (await manager.run("new")).text == "new"


async def test_a_slow_listener_is_waited_for_when_nothing_is_cancelled(managed, jumping):
    ended = []

    async def slow(event):
        await jumping.sleep(10)
        ended.append(event.name)

    manager, _ = managed(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    manager.on(WorkflowBegin, lambda event: event.workflow.on(WorkflowEnd, slow))
    manager.conversation.on("history_change", slow)
    result = await manager.run("go")

    assert result.reason == "complete"
    assert ended == ["history_change"] * 3 + ["workflow_end"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cx_r3_a_second_cancel_in_the_announcement_of_the_end_loses_none_of_it(managed, fake_clock):
    door = Door()
    manager, _ = managed(calls(("door", {})), "new", toolkit=[door.tool])
    hanging = Hanging(to("idle"))
    heard, heard_later = Log(), []
    workflows = []

    async def hear_later(event):
        await anyio.lowlevel.checkpoint()
        heard_later.append(event.name)

    def begin(event):
        workflows.append(event.workflow)
        event.workflow.on(WorkflowStateChange, hanging)
        event.workflow.on(Event, hear_later)
        heard.hear("W", event.workflow)

    manager.once(WorkflowBegin, begin)
    task = asyncio.ensure_future(manager.run("go"))
    await door.entered.wait()
    task.cancel()
    await hanging.is_in.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    await settle()
    assert heard.names("W")[-4:] == heard_later[-4:] == END
    assert workflows[0].state == "disposed"
    assert workflows[0].result.reason == "cancel"
    assert (manager.state, manager.current_workflow) == ("idle", None)
    assert (await manager.run("new")).text == "new"


async def test_cancelling_the_task_tells_every_async_listener_of_the_results(scripted, group, fake_clock):
    door = Door()
    conversation, _ = scripted(calls(("door", {})), toolkit=[door.tool])
    told = []

    async def hear(event):
        await anyio.lowlevel.checkpoint()
        told.append(event.message_ids)

    conversation.on("history_change", hear)
    asked = Asked(group, conversation.prompt, "go")
    await door.entered.wait()
    asked.scope.cancel()
    await asked.ended.wait()

    assert told[-1] == (conversation.messages[-1].id,)
    assert len(told) == 2
