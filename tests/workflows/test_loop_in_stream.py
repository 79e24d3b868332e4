"""A tool loop in a stream: the events of all its turns and of its workflow, and leaving it while tools run."""

from __future__ import annotations

import threading

import anyio
import pytest
from tool_loops import Asked, Door, add, counting, outcomes, settle, shapes

from simulacra.errors import InvalidStateError, ServerError
from simulacra.events import HistoryChange, StateChange
from simulacra.policies import NoopPolicy
from simulacra.testing import calls, fault
from simulacra.tools import ToolClass, ToolContext, tool
from simulacra.workflows import Workflow
from simulacra.workflows.events import WorkflowEnd, WorkflowEvent, WorkflowToolProgress, WorkflowUpdate

pytestmark = pytest.mark.anyio


class Steps(ToolClass):
    """Tell of two steps, wait after each."""

    doors: tuple[anyio.Event, ...] = ()
    ended: list[str] = []  # noqa: RUF012 -- one tool per test

    async def execute(self) -> str:
        try:
            for number, door in enumerate(self.doors, 1):
                self.context.report_progress(number, total=2, message=f"step {number}")
                await door.wait()
        finally:
            self.ended.append("ended")

        return "done"


@pytest.fixture
def steps():
    class Fresh(Steps):
        name = "steps"
        doors = (anyio.Event(), anyio.Event())
        ended = []

    return Fresh


@pytest.mark.parametrize("with_manager", [False, True])
async def test_a_stream_goes_over_the_whole_tool_loop(scripted, managed, with_manager):
    script = (calls(("add", {"a": 1, "b": 2}), text="Let me see. "), "It is 3.")
    conversation = (
        managed(*script, toolkit=[add])[0].conversation if with_manager else scripted(*script, toolkit=[add])[0]
    )
    heard = []
    conversation.on("content_update", lambda event: heard.append(event.delta))

    async with conversation.stream("1 + 2?") as stream:
        events = [event async for event in stream]
        response = await stream.response()

    assert response.text == "It is 3."
    names = [event.name for event in events]
    assert names.count("message_complete") == 2
    assert "".join(event.delta for event in events if event.name == "content_update") == "".join(heard)
    assert [type(event).__name__ for event in events if isinstance(event, WorkflowEvent)] == [
        "WorkflowStateChange",
        *["WorkflowUpdate"] * 4,
        "WorkflowStateChange",
        "WorkflowEnd",
        "WorkflowDispose",
        "WorkflowStateChange",
    ]
    assert [len(event.message_ids) for event in events if isinstance(event, HistoryChange)] == [2, 1, 1]
    states = [event.current for event in events if isinstance(event, StateChange)]
    assert states == ["awaiting_response", "streaming_response", "idle"] * 2


async def test_text_deltas_of_a_stream_are_those_of_all_turns(scripted):
    conversation, _ = scripted(calls(("add", {"a": 1, "b": 2}), text="Let me see. "), "It is 3.", toolkit=[add])

    async with conversation.stream("1 + 2?") as stream:
        assert "".join([delta async for delta in stream.text_deltas()]) == "Let me see. It is 3."


async def test_progress_of_a_running_tool_reaches_the_stream_at_once(scripted, steps):
    conversation, _ = scripted(calls(("steps", {})), "done", toolkit=[steps])
    seen = []

    async with conversation.stream("go") as stream:
        async for event in stream:
            if isinstance(event, WorkflowToolProgress):
                seen.append((event.progress.message, list(steps.ended)))
                steps.doors[len(seen) - 1].set()

    assert seen == [("step 1", []), ("step 2", [])]


async def test_progress_told_in_a_thread_reaches_the_stream_while_the_thread_runs(scripted):
    heard = threading.Event()

    @tool
    def work(context: ToolContext) -> bool:
        """Tell of a step and wait until it is known."""
        context.report_progress(message="half way")

        return heard.wait(60)

    conversation, _ = scripted(calls(("work", {})), "done", toolkit=[work])

    async with conversation.stream("go") as stream:
        async for event in stream:
            if isinstance(event, WorkflowToolProgress):
                assert event.progress.message == "half way"
                heard.set()

    assert outcomes(conversation.messages[2]) == [{"result": True, "output": True}]


async def test_progress_reaches_sync_and_async_listeners_while_the_tool_runs(managed, steps):
    manager, _ = managed(calls(("steps", {})), "done", toolkit=[steps])
    seen = []

    def hear(event):
        if event.event.name == "tool_progress":
            seen.append(event.event.progress.progress)
            steps.doors[0].set()

    async def hear_later(event):
        if event.event.name == "tool_progress":
            await anyio.lowlevel.checkpoint()
            seen.append(event.event.progress.progress)

            if len(seen) == 4:
                steps.doors[1].set()

    manager.on("workflow_event", hear)
    manager.on("workflow_event", hear_later)
    await manager.run("go")
    assert seen == [1, 1, 2, 2]


async def test_leaving_a_stream_while_tools_run_cancels_them(scripted, steps):
    conversation, provider = scripted(calls(("add", {"a": 1, "b": 2}), ("steps", {})), "new", toolkit=[steps, add])

    async with conversation.stream("go") as stream:
        async for event in stream:
            if isinstance(event, WorkflowToolProgress):
                break

    assert steps.ended == ["ended"]
    assert (await stream.response()).cancelled
    assert not conversation.is_busy
    assert shapes(conversation.messages) == ["user", "calls", "results"]
    finished, stopped = outcomes(conversation.messages[-1])
    assert stopped["message"].startswith("cancelled")
    assert finished["output"] == 3
    assert len(provider.requests) == 1
    assert (await conversation.prompt("new")).text == "new"


async def test_a_stream_abandoned_without_its_context_settles_too(scripted, steps):
    conversation, _ = scripted(calls(("steps", {})), "new", toolkit=[steps])
    stream = conversation.stream("go")
    await stream.__aenter__()
    events = stream._events

    async for event in events:
        if isinstance(event, WorkflowToolProgress):
            break

    await events.aclose()
    assert steps.ended == ["ended"]
    assert shapes(conversation.messages) == ["user", "calls", "results"]
    assert not conversation.is_busy


async def test_a_stream_can_be_cancelled_by_another_task_while_its_tools_run(scripted, group):
    door = Door()
    conversation, _ = scripted(calls(("door", {})), toolkit=[door.tool])
    seen = []

    async def consume():
        async with conversation.stream("go") as stream:
            seen.append(stream)
            seen.extend([event async for event in stream])

            return await stream.response()

    asked = Asked(group, consume)
    await door.entered.wait()
    seen[0].cancel()
    await asked.ended.wait()

    assert asked.outcome.cancelled
    assert [event.result.reason for event in seen[1:] if isinstance(event, WorkflowEnd)] == ["cancel"]


async def test_cancelling_the_consumer_of_a_stream_reaches_the_tools(scripted, group):
    door = Door()
    conversation, _ = scripted(calls(("door", {})), toolkit=[door.tool])

    async def consume():
        async with conversation.stream("go") as stream:
            async for _ in stream:
                pass

    asked = Asked(group, consume)
    await door.entered.wait()
    asked.scope.cancel()
    await asked.ended.wait()

    assert not conversation.is_busy
    assert shapes(conversation.messages) == ["user", "calls", "results"]


async def test_an_error_in_the_follow_up_raises_from_the_iteration_after_the_end_of_the_workflow(scripted):
    conversation, _ = scripted(
        calls(("add", {"a": 1, "b": 2})), fault(ServerError("down")), toolkit=[add], policy=NoopPolicy()
    )
    events = []

    with pytest.raises(ServerError):
        async with conversation.stream("go") as stream:
            async for event in stream:
                events.append(event)

    assert [event.result.reason for event in events if isinstance(event, WorkflowEnd)] == ["error"]
    assert shapes([event.message for event in events if isinstance(event, WorkflowUpdate)]) == [
        "user",
        "calls",
        "results",
    ]


async def test_events_of_a_child_workflow_reach_the_parents_stream_while_its_tool_runs(scripted):
    child_conversation, _ = scripted("child's answer")
    door = anyio.Event()

    class Delegate(ToolClass):
        """Let a child work."""

        async def execute(self) -> str:
            result = await self.context.workflow.spawn_child(child_conversation).start("go")
            await door.wait()

            return result.text

    conversation, _ = scripted(calls(("delegate", {})), "done", toolkit=[Delegate])
    names = []

    async with conversation.stream("go") as stream:
        async for event in stream:
            names.append(event.name)

            if event.name == "child_workflow_event" and event.event.name == "workflow_end":
                door.set()

    assert names.count("child_workflow_begin") == 1
    assert outcomes(conversation.messages[2])[0]["output"] == "child's answer"


async def test_w_conv_6_conv_34_a_prompt_while_tools_run_is_refused_and_the_results_are_delivered(scripted, group):
    """Scenario 4: the state reads idle, but the conversation is taken."""
    door = Door()
    conversation, provider = scripted(calls(("door", {})), "done", toolkit=[door.tool])
    asked = Asked(group, conversation.prompt, "go")
    await door.entered.wait()

    assert (conversation.state, conversation.is_busy) == ("idle", True)

    for refused in (conversation.prompt, conversation.send_message, Workflow(conversation).start):
        with pytest.raises(InvalidStateError, match="tool loop"):
            await refused("meanwhile")

    with pytest.raises(InvalidStateError):
        async with conversation.stream("meanwhile"):
            raise AssertionError

    for call in (conversation.clear, lambda: conversation.load([])):
        with pytest.raises(InvalidStateError, match="tool loop"):
            call()

    door.opened.set()
    await asked.ended.wait()
    assert asked.outcome.text == "done"
    assert shapes(provider.requests[1].messages) == ["user", "calls", "results"]


@pytest.mark.parametrize("when_busy", ["queue", "merge", "latest"])
async def test_w_conv_6_a_prompt_while_tools_run_waits_for_the_end_of_the_loop(scripted, group, when_busy):
    door = Door()
    conversation, provider = scripted(calls(("door", {})), "one", "two", toolkit=[door.tool], when_busy=when_busy)
    first = Asked(group, conversation.prompt, "go")
    await door.entered.wait()
    second = Asked(group, conversation.prompt, "meanwhile")
    await settle()
    assert len(provider.requests) == 1
    door.opened.set()
    await second.ended.wait()

    assert (first.outcome.text, second.outcome.text) == ("one", "two")
    assert shapes(conversation.messages) == ["user", "calls", "results", "assistant", "user", "assistant"]


@pytest.mark.parametrize("way", ["when_busy", "interrupt()"])
async def test_w_conv_6_an_interrupting_prompt_cancels_the_tools_and_their_results_stand(scripted, group, way):
    door = Door()
    counted, notes = counting()
    conversation, provider = scripted(
        calls(("door", {}), ("count", {"n": 1})),
        "two",
        toolkit=[door.tool, counted],
        when_busy="interrupt" if way == "when_busy" else "reject",
    )
    first = Asked(group, conversation.prompt, "go")
    await door.entered.wait()

    while not notes:
        await anyio.lowlevel.checkpoint()

    await settle()
    response = await (conversation.prompt if way == "when_busy" else conversation.interrupt)("stop that")

    assert response.text == "two"
    assert first.outcome.cancelled
    sent = provider.requests[1].messages
    assert shapes(sent) == ["user", "calls", "results", "user"]
    stopped, finished = outcomes(sent[2])
    assert stopped["message"].startswith("cancelled while running")
    assert finished["output"] == 1
