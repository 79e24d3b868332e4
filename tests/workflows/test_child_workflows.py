"""Workflows that work for another one, and tool loops of plain scripts."""

from __future__ import annotations

import anyio
import pytest
from tool_loops import Asked, Door, Log, add, outcomes, settle, shapes

from simulacra import run_sync
from simulacra.conversation import Conversation
from simulacra.errors import InvalidStateError, ServerError
from simulacra.policies import NoopPolicy
from simulacra.testing import ScriptedProvider, calls, fault, reply
from simulacra.tools import ToolClass, tool
from simulacra.workflows import Workflow, WorkflowManager
from simulacra.workflows.events import ChildWorkflowBegin, ChildWorkflowEvent, WorkflowEnd


@pytest.mark.anyio
async def test_wf_13_a_cancelled_parent_cancels_its_children(scripted, group):
    parents_door, childs_door = Door(), Door()
    parent_conversation, _ = scripted(calls(("door", {})), toolkit=[parents_door.tool])
    child_conversation, _ = scripted(calls(("door", {})), toolkit=[childs_door.tool])
    parent = Workflow(parent_conversation)
    child = parent.spawn_child(child_conversation)
    asked = [Asked(group, parent.start, "go"), Asked(group, child.start, "go")]
    await parents_door.entered.wait()
    await childs_door.entered.wait()
    parent_conversation.cancel_response()

    for one in asked:
        await one.ended.wait()

    assert [one.outcome.reason for one in asked] == ["cancel", "cancel"]
    assert child.state == "disposed"
    assert shapes(child_conversation.messages) == ["user", "calls", "results"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "ending",
    ["fine", fault(ServerError("down")), reply("cut", stop_reason="max_tokens"), reply("no", stop_reason="refusal")],
)
async def test_wf_13_no_other_end_of_the_parent_cancels_its_children(scripted, group, ending):
    door = Door()
    parent_conversation, _ = scripted(ending, policy=NoopPolicy())
    child_conversation, _ = scripted(calls(("door", {})), "child's answer", toolkit=[door.tool])
    parent = Workflow(parent_conversation)
    child = Asked(group, parent.spawn_child(child_conversation).start, "go")
    await door.entered.wait()
    await parent.start("go")
    await settle()

    assert parent.state == "disposed"
    assert not child.ended.is_set()
    door.opened.set()
    await child.ended.wait()
    assert (child.outcome.reason, child.outcome.text) == ("complete", "child's answer")


@pytest.mark.anyio
async def test_wf_13_cancelling_a_child_leaves_its_parent_alone(scripted, group):
    door = Door()
    child_conversation, _ = scripted(calls(("door", {})), toolkit=[door.tool])
    children = []

    class Delegate(ToolClass):
        """Let a child work."""

        async def execute(self) -> str:
            children.append(self.context.workflow.spawn_child(child_conversation))

            return (await children[0].start("go")).reason

    conversation, provider = scripted(calls(("delegate", {})), "done", toolkit=[Delegate])
    asked = Asked(group, conversation.prompt, "go")
    await door.entered.wait()
    children[0].cancel()
    await asked.ended.wait()

    assert asked.outcome.text == "done"
    assert outcomes(provider.requests[1].messages[-1])[0]["output"] == "cancel"


@pytest.mark.anyio
async def test_w_wf_1_a_subagent_that_a_tool_waits_for_ends_with_its_workflow(scripted, group, fake_clock):
    door = Door()
    child_conversation, _ = scripted(calls(("door", {})), toolkit=[door.tool])
    results = []

    class Delegate(ToolClass):
        """Let a child work."""

        async def execute(self) -> None:
            child = self.context.workflow.spawn_child(child_conversation)
            child.on(WorkflowEnd, lambda event: results.append(event.result.reason))
            await child.start("go")

    conversation, _ = scripted(calls(("delegate", {})), toolkit=[Delegate])
    asked = Asked(group, conversation.prompt, "go")
    await door.entered.wait()
    conversation.cancel_response()
    await asked.ended.wait()

    assert results == ["cancel"]
    assert shapes(child_conversation.messages) == ["user", "calls", "results"]
    assert not child_conversation.is_busy
    assert fake_clock.monotonic() == 0


@pytest.mark.anyio
async def test_a_childs_events_reach_parent_and_manager_and_it_shares_the_data(managed, scripted):
    child_conversation, _ = scripted("child's answer")
    made = []

    class Delegate(ToolClass):
        """Let a child work."""

        async def execute(self) -> None:
            workflow = self.context.workflow
            made.append((workflow, workflow.spawn_child(child_conversation, id="c1")))
            heard.hear("W", workflow)
            await made[0][1].start("go")

    heard = Log()
    manager, _ = managed(calls(("delegate", {})), "done", toolkit=[Delegate], context_data={"user": "ada"})
    heard.hear("M", manager, "workflow_event")
    await manager.run("go")
    workflow, child = made[0]

    assert (child.id, child.parent) == ("c1", workflow)
    assert child.context_data is workflow.context_data
    of_child = [event.event.name for who, event in heard.events if who == "W" and isinstance(event, ChildWorkflowEvent)]
    assert of_child == [
        "state_change",
        "workflow_update",
        "workflow_update",
        "state_change",
        "workflow_end",
        "dispose",
        "state_change",
    ]
    forwarded = [event.event for who, event in heard.events if who == "M"]
    assert [event.child for event in forwarded if isinstance(event, ChildWorkflowBegin)] == [child]
    assert [event.event.name for event in forwarded if isinstance(event, ChildWorkflowEvent)] == of_child


@tool
async def where() -> str:
    """Tell the event loop's state."""
    await anyio.lowlevel.checkpoint()

    return "on the loop"


def led(*steps, **options):
    return WorkflowManager(Conversation(ScriptedProvider(steps), toolkit=[where, add]), **options)


def test_mgr_3_run_sync_is_run_for_plain_scripts():
    with led(calls(("where", {})), "done", "again") as manager:
        result = manager.run_sync("go")
        assert (result.reason, result.text) == ("complete", "done")
        assert outcomes(manager.conversation.messages[2])[0]["output"] == "on the loop"
        assert manager.run_sync("go", key="k") is manager.run_sync("go", key="k")

    assert manager.state == "disposed"


def test_prompt_sync_drives_the_tool_loop():
    with Conversation(ScriptedProvider([calls(("add", {"a": 1, "b": 2})), "3"]), toolkit=[add]) as conversation:
        assert conversation.prompt_sync("1 + 2?").text == "3"
        assert shapes(conversation.messages) == ["user", "calls", "results", "assistant"]


def test_stream_sync_goes_over_the_tool_loop():
    with (
        Conversation(ScriptedProvider([calls(("add", {"a": 1, "b": 2})), "3"]), toolkit=[add]) as conversation,
        conversation.stream_sync("1 + 2?") as stream,
    ):
        names = [event.name for event in stream]
        assert names.count("message_complete") == 2
        assert stream.response().text == "3"


@pytest.mark.anyio
async def test_run_sync_inside_an_event_loop_says_what_to_do(managed):
    manager, _ = managed("one")

    with pytest.raises(InvalidStateError, match="await manager.run"):
        manager.run_sync("go")

    with pytest.raises(InvalidStateError, match="async with"), manager:
        raise AssertionError

    assert (await manager.run("go")).text == "one"


def test_a_run_on_the_background_loop_can_be_resumed_there():
    manager = led(calls(("add", {"a": 1, "b": 2})), fault(ServerError("down")), "3")
    manager.conversation.core.settings.policy = NoopPolicy()
    assert manager.run_sync("go").reason == "error"
    assert run_sync(manager.resume()).text == "3"
