"""The life of a manager: one per conversation, refusals that leave nothing behind, dispose."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from tool_loops import Asked, Door, Log, add, outcomes, settle

from simulacra.conversation import Conversation
from simulacra.errors import ConfigurationError, InvalidStateError, ServerError, TimeoutExceededError
from simulacra.policies import NoopPolicy
from simulacra.testing import ScriptedProvider, calls, fault, stall
from simulacra.workflows import Workflow, WorkflowManager
from simulacra.workflows.events import WorkflowBegin

pytestmark = pytest.mark.anyio


async def test_mgr_6_dispose_cancels_settles_and_tells_it_once(managed, group):
    door = Door()
    manager, provider = managed(calls(("door", {})), "alone", toolkit=[door.tool], when_busy="queue")
    log = Log()
    manager.on("state_change", lambda event: log.events.append((f"{event.previous}>{event.current}", event)))
    manager.on("dispose", lambda event: log.events.append((f"dispose while {manager.state}", event)))
    running = Asked(group, manager.run, "go")
    await door.entered.wait()
    waiting = [Asked(group, manager.run, "waiting"), Asked(group, manager.conversation.prompt, "waiting, too")]
    await settle()

    async with anyio.create_task_group() as closing:
        closing.start_soon(manager.aclose)
        closing.start_soon(manager.aclose)

    for one in (running, *waiting):
        await one.ended.wait()

    assert running.outcome.reason == "cancel"
    assert (waiting[0].outcome.reason, waiting[0].outcome.response.stop_details) == ("cancel", "disposed")
    assert waiting[1].outcome.text == "alone"  # a prompt is the conversation's, which lives on
    assert [who for who, _ in log.events] == ["idle>busy", "busy>idle", "dispose while idle", "idle>disposed"]
    assert len(provider.requests) == 2
    assert not manager.conversation.is_busy
    await manager.aclose()

    for call in (lambda: manager.run("x"), manager.resume):
        with pytest.raises(InvalidStateError, match="disposed"):
            await call()

    with pytest.raises(InvalidStateError, match="disposed"):
        manager.queue_message("x")


async def test_w_mgr_2_dispose_from_inside_a_run_settles_it_and_the_state_stays_disposed(managed):
    manager, _ = managed("one")
    states = []
    manager.on("state_change", lambda event: states.append(event.current))

    async def close(event):
        await manager.aclose()

    manager.conversation.once("message_complete", close)
    result = await manager.run("go")

    assert result.response.text == "one"
    assert states == ["busy", "disposed"]
    assert manager.state == "disposed"
    assert manager.conversation.state == "idle"


async def test_mgr_6_a_disposed_manager_lets_go_of_its_conversation(managed):
    async with managed("one", "two", "three", toolkit=[add])[0] as manager:
        conversation = manager.conversation
        await manager.run("go")

    assert (await conversation.prompt("alone")).text == "two"
    assert (await WorkflowManager(conversation).run("led again")).text == "three"


async def test_mgr_6_disposing_the_conversation_disposes_its_manager(managed):
    manager, _ = managed("one")
    names = []
    manager.on("dispose", lambda event: names.append("M dispose"))
    manager.conversation.on("dispose", lambda event: names.append("C dispose"))
    await manager.run("go")
    await manager.conversation.aclose()

    assert manager.state == "disposed"
    assert sorted(names) == ["C dispose", "M dispose"]


async def test_w_mgr_4_after_a_cancel_an_immediate_run_is_accepted(managed, group, fake_clock):
    door = Door()
    manager, _ = managed(calls(("door", {})), "new", toolkit=[door.tool])
    running = Asked(group, manager.run, "go")
    await door.entered.wait()
    manager.current_workflow.cancel()
    result = await manager.run("next")

    assert result.text == "new"
    assert running.outcome.reason == "cancel"


async def test_w_mgr_5_nothing_leaks_when_a_run_is_refused(managed):
    manager, provider = managed("one")

    for wrong in ({"max_tokens": "many"}, {"first_event_timeout": -1}):
        with pytest.raises(ConfigurationError):
            await manager.run("go", **wrong)

    with pytest.raises(ConfigurationError):
        await manager.run("")

    assert (manager.state, manager.current_workflow) == ("idle", None)
    assert not manager.conversation.is_busy
    assert provider.requests == []
    assert (await manager.run("go")).text == "one"


async def test_w_mgr_5_a_run_takes_a_time_limit(managed, group, fake_clock):
    manager, _ = managed(stall(), "fine", policy=NoopPolicy())
    asked = Asked(group, partial(manager.run, "go", first_event_timeout=2))
    await fake_clock.advance(2)
    await asked.ended.wait()

    assert isinstance(asked.outcome.error, TimeoutExceededError)
    assert (await manager.run("again")).text == "fine"


async def test_w_mgr_5_no_listener_is_left_on_the_conversation(managed):
    manager, _ = managed("one", fault(ServerError("down")), "three", policy=NoopPolicy(), toolkit=[add])
    subscriptions = manager.conversation.core.emitter._subscriptions
    before = list(subscriptions)

    for _ in range(3):
        await manager.run("go")

    assert subscriptions == before
    await manager.aclose()
    assert subscriptions == []


async def test_w_mgr_6_there_is_no_method_that_does_nothing(managed):
    """`run` starts workflows, as the conversation's prompts do; the original's `start_workflow` has no counterpart."""
    manager, _ = managed()
    public = {name for name in dir(manager) if not name.startswith("_") and callable(getattr(manager, name))}
    assert public == {
        *("run", "run_sync", "resume", "queue_message", "aclose"),
        *("on", "once", "off"),
        *("drive", "conduct", "new_workflow"),  # what conversation and runs call
    }


async def test_mgr_9_a_second_manager_or_a_workflow_beside_it_is_refused(managed, scripted, group):
    manager, provider = managed("one", toolkit=[add])

    with pytest.raises(InvalidStateError, match="manager"):
        WorkflowManager(manager.conversation)

    with pytest.raises(InvalidStateError, match="manager"):
        await Workflow(manager.conversation).start("go")

    assert provider.requests == []
    assert (await manager.run("go")).text == "one"

    door = Door()
    conversation, _ = scripted(calls(("door", {})), "two", toolkit=[door.tool])
    workflow = Asked(group, Workflow(conversation).start, "go")
    await door.entered.wait()

    with pytest.raises(InvalidStateError, match="busy"):
        WorkflowManager(conversation)

    with pytest.raises(InvalidStateError, match="busy"):
        await Workflow(conversation).start("beside")

    door.opened.set()
    await workflow.ended.wait()
    WorkflowManager(conversation)


async def test_mgr_9_a_disposed_conversation_takes_no_manager(scripted):
    conversation, _ = scripted()
    await conversation.aclose()

    with pytest.raises(InvalidStateError, match="disposed"):
        WorkflowManager(conversation)


async def test_mgr_5_there_is_no_start_workflow_a_run_starts_its_own(managed):
    manager, _ = managed("one")
    started = []
    manager.on(WorkflowBegin, lambda event: started.append(event.workflow.state))
    await manager.run("go")

    assert not hasattr(manager, "start_workflow")
    assert started == ["idle"]


async def test_mgr_7_listeners_come_and_go(managed):
    manager, _ = managed("one", "two")
    heard = []
    off = manager.on("workflow_begin", heard.append)
    manager.once(WorkflowBegin, heard.append)
    await manager.run("a")
    assert len(heard) == 2
    off()
    manager.off("workflow_begin", heard.append)
    await manager.run("b")
    assert len(heard) == 2

    with pytest.raises(ConfigurationError, match="workflow_begin"):
        manager.on("no_such_event", heard.append)

    await manager.aclose()
    manager.on("workflow_begin", heard.append)()  # on a disposed manager, listening does nothing


async def test_tools_share_the_managers_context_data(managed):
    door = Door()
    door.opened.set()
    manager, _ = managed(
        calls(("door", {}), ("door", {})),
        "one",
        calls(("door", {})),
        "two",
        toolkit=[door.tool],
        context_data={"user": "ada"},
    )
    await manager.run("a")
    await manager.run("b")

    assert [context.user for context in door.contexts] == ["ada"] * 3
    assert len({id(context.data) for context in door.contexts}) == 1
    assert len({id(context) for context in door.contexts}) == 3
    assert door.contexts[0].workflow is door.contexts[1].workflow
    assert door.contexts[0].workflow is not door.contexts[2].workflow
    assert outcomes(manager.conversation.messages[2])[0] == {"result": True, "output": "through"}


async def test_conversations_of_one_provider_are_conducted_beside_each_other(group):
    door = Door()
    provider = ScriptedProvider([calls(("door", {})), "b", "a"])
    first = WorkflowManager(Conversation(provider, toolkit=[door.tool]))
    second = WorkflowManager(Conversation(provider, toolkit=[door.tool]))
    running = Asked(group, first.run, "go")
    await door.entered.wait()
    assert (await second.run("go")).text == "b"
    door.opened.set()
    await running.ended.wait()
    assert running.outcome.text == "a"
