"""What a tool loop announces, and in which order: manager, workflow and conversation as one list."""

from __future__ import annotations

import pytest
from tool_loops import Door, Log, add, outcomes, settle, shapes

from simulacra.conversation import Conversation
from simulacra.emitter import Event
from simulacra.events import MessageComplete, PromptSend, StateChange
from simulacra.testing import ScriptedProvider, calls
from simulacra.workflows import Workflow
from simulacra.workflows.events import (
    ForwardedWorkflowEvent,
    ManagerStateChange,
    WorkflowBegin,
    WorkflowEnd,
    WorkflowStateChange,
    WorkflowUpdate,
)

pytestmark = pytest.mark.anyio

ENDS = ["state_change busy>idle", "workflow_end", "dispose", "state_change idle>disposed"]


def label(event):
    if event.name == "state_change":
        return f"state_change {event.previous}>{event.current}"

    if isinstance(event, MessageComplete):
        return f"message_complete {event.stop_reason}"

    if isinstance(event, WorkflowUpdate):
        return f"workflow_update {shapes([event.message])[0]}"

    return event.name


class Heard(list):
    """Manager (M), workflow (W) and conversation (C), as one list of labels."""

    def __init__(self, manager):
        for kind in (StateChange, PromptSend, MessageComplete):
            manager.conversation.on(kind, lambda event: self.append(f"C {label(event)}"))

        manager.on(Event, self._of_manager)

    def _of_manager(self, event):
        if not isinstance(event, ForwardedWorkflowEvent):
            self.append(f"M {label(event)}")

        if isinstance(event, WorkflowBegin):
            event.workflow.on(Event, lambda event: self.append(f"W {label(event)}"))


EXCHANGE = ["C state_change idle>awaiting_response", "C prompt_send"]


def turn(sent, stop_reason, received):
    return [
        *EXCHANGE,
        f"W workflow_update {sent}",
        "C state_change awaiting_response>streaming_response",
        f"C message_complete {stop_reason}",
        f"W workflow_update {received}",
        "C state_change streaming_response>idle",
    ]


async def test_conv_22_a_tool_turn_is_announced_in_order_by_manager_workflow_and_conversation(managed):
    manager, _ = managed(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    heard = Heard(manager)
    await manager.run("1 + 2?")

    assert heard == [
        "M state_change idle>busy",
        "M workflow_begin",
        "W state_change idle>busy",
        *turn("user", "tool_use", "calls"),
        *turn("results", "end_turn", "assistant"),
        *(f"W {name}" for name in ENDS),
        "M state_change busy>idle",
    ]


async def test_conv_22_the_order_is_the_same_when_the_conversation_is_prompted(managed):
    script = (calls(("add", {"a": 1, "b": 2})), "3")
    (first, _), (second, _) = managed(*script, toolkit=[add]), managed(*script, toolkit=[add])
    by_run, by_prompt = Heard(first), Heard(second)
    await first.run("1 + 2?")
    await second.conversation.prompt("1 + 2?")

    assert by_prompt == by_run


async def test_mgr_1_a_prompt_begins_a_workflow_and_its_turns_continue_it(managed):
    manager, provider = managed(calls(("add", {"a": 1, "b": 2})), "3", "fine", toolkit=[add])
    begun, seen = [], []
    manager.on(WorkflowBegin, lambda event: begun.append((event.workflow, manager.current_workflow, manager.state)))
    manager.on(ForwardedWorkflowEvent, lambda event: seen.append(event.event))
    heard = []
    manager.once(WorkflowBegin, lambda event: event.workflow.on(Event, heard.append))
    await manager.conversation.prompt("1 + 2?")

    assert len(begun) == 1
    workflow, current, state = begun[0]
    assert current is workflow
    assert state == "busy"
    assert seen == heard
    assert [type(event) for event in seen[:2]] == [WorkflowStateChange, WorkflowUpdate]

    await manager.run("thanks")
    assert len(begun) == 2
    assert len({workflow.id for workflow, *_ in begun}) == 2
    assert len(provider.requests) == 3


async def test_mgr_1_what_sync_calls_announce_is_forwarded_too(managed):
    manager, _ = managed("one", "two", toolkit=[add])
    log = Log()
    log.hear("M", manager, ForwardedWorkflowEvent)
    manager.on(WorkflowBegin, lambda event: event.workflow.queue_message("more"))
    await manager.run("go")

    assert [event.event.name for _, event in log.events].count("message_queued") == 1


async def test_mgr_2_the_manager_is_idle_before_run_returns(managed):
    manager, _ = managed("one", "two", toolkit=[add])
    seen = []

    def hear(event):
        seen.append((event.current, manager.current_workflow is None))

    manager.on(ManagerStateChange, hear)
    await manager.run("first")
    assert manager.state == "idle"
    assert manager.current_workflow is None
    result = await manager.run("second")
    assert result.text == "two"
    assert seen == [("busy", False), ("idle", True)] * 2


async def test_mgr_2_a_listener_of_idle_can_run_again(managed):
    manager, _ = managed("one", "two", toolkit=[add])
    results = []

    async def again(event):
        if event.current == "idle" and not results:
            results.append(None)
            results[0] = await manager.run("second")

    manager.on(ManagerStateChange, again)
    first = await manager.run("first")
    assert (first.text, results[0].text) == ("one", "two")


async def test_wf_1_every_message_is_kept_and_announced(scripted):
    conversation, provider = scripted(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    workflow = Workflow(conversation)
    updates = []
    workflow.on(WorkflowUpdate, lambda event: updates.append(event.message))
    result = await workflow.start("1 + 2?")

    assert shapes(workflow.messages) == ["user", "calls", "results", "assistant"]
    assert tuple(updates) == workflow.messages == result.messages == conversation.messages
    assert provider.requests[1].messages == conversation.messages[:3]


async def test_wf_4_the_results_of_a_reply_go_back_as_one_user_message_in_call_order(scripted):
    slow = Door("slow")
    conversation, provider = scripted(
        calls(("slow", {"place": "a"}), ("add", {"a": 1, "b": 2}), ("nope", {})), "done", toolkit=[add, slow.tool]
    )
    slow.opened.set()
    await conversation.prompt("go")
    sent = provider.requests[1].messages

    assert shapes(sent) == ["user", "calls", "results"]
    assert [block.tool for block in sent[2].content] == ["slow", "add", "nope"]
    assert [outcome["result"] for outcome in outcomes(sent[2])] == [True, True, False]


async def test_wf_11_a_workflow_ends_idle_then_tells_its_end_then_is_disposed(scripted):
    conversation, _ = scripted("hello")
    workflow = Workflow(conversation)
    heard, states = [], []
    workflow.on(Event, lambda event: heard.append(label(event)))
    workflow.on(WorkflowEnd, lambda event: states.append(workflow.state))
    result = await workflow.start("hi")

    assert heard[-4:] == ENDS
    assert states == ["idle"]
    assert workflow.state == "disposed"
    assert workflow.result is result


async def test_conv_33_history_is_announced_right_behind_the_commit_of_results():
    conversation = Conversation(ScriptedProvider([calls(("add", {"a": 1, "b": 2})), "3"]), toolkit=[add])
    log = Log()
    log.hear("C", conversation)
    await conversation.prompt("1 + 2?")
    changes = [event for _, event in log.events if event.name == "history_change"]

    assert [event.reason for event in changes] == ["append"] * 3
    assert [len(event.message_ids) for event in changes] == [2, 1, 1]
    assert all(event.request_id for event in changes)
    assert changes[1].message_ids == (conversation.messages[2].id,)


async def test_listeners_that_fail_change_nothing_and_are_reported(managed):
    manager, _ = managed(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    log = Log()
    log.hear("M", manager, "lifecycle_error")

    def break_down(event):
        raise ValueError(event.name)

    def begin(event):
        event.workflow.on(Event, break_down)
        log.hear("W", event.workflow, "lifecycle_error")

    manager.on(WorkflowBegin, begin)
    manager.on("state_change", break_down)
    result = await manager.run("1 + 2?")
    await settle()

    assert (result.reason, result.text) == ("complete", "3")
    assert log.names("M") == ["lifecycle_error"] * 2
    assert {event.context["event"] for who, event in log.events if who == "W"} >= {
        "state_change",
        "workflow_update",
        "workflow_end",
        "dispose",
    }
