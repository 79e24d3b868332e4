"""Messages that wait for a workflow's next normal stop."""

from __future__ import annotations

import anyio
import pytest
from tool_loops import Door, Log, add, settle, shapes

from simulacra.errors import ConfigurationError, InvalidStateError, ServerError
from simulacra.messages import MediaContent, TextContent
from simulacra.policies import NoopPolicy
from simulacra.testing import calls, fault, reply
from simulacra.workflows import Workflow
from simulacra.workflows.events import MessageDequeued, WorkflowBegin, WorkflowEnd

pytestmark = pytest.mark.anyio


async def test_wf_6_queued_messages_are_sent_one_per_normal_stop_in_order(scripted):
    conversation, provider = scripted("one", "two", "three")
    workflow = Workflow(conversation)
    workflow.queue_message("q1")
    workflow.queue_message([TextContent("q2")])
    log = Log()
    log.hear("W", workflow)
    conversation.on("prompt_send", lambda event: log.events.append(("C", event)))
    assert [message[0].text for message in workflow.queued_messages] == ["q1", "q2"]
    result = await workflow.start("first")

    assert len(provider.requests) == 3
    assert [message.content[0].text for message in conversation.messages] == [
        "first",
        "one",
        "q1",
        "two",
        "q2",
        "three",
    ]
    assert (result.reason, result.text, result.rounds) == ("complete", "three", 3)
    assert log.names("W").count("workflow_end") == 1
    assert [name for name in log.names() if name in ("message_dequeued", "prompt_send")] == [
        "prompt_send",
        "message_dequeued",
        "prompt_send",
        "message_dequeued",
        "prompt_send",
    ]
    assert workflow.queued_messages == ()


async def test_wf_6_a_message_queued_while_tools_run_waits_for_the_stop(managed):
    door = Door()
    manager, provider = managed(calls(("door", {})), "one", "two", toolkit=[door.tool])
    log = Log()
    log.hear("M", manager, "workflow_event")

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run, "go")
        await door.entered.wait()
        manager.queue_message("steer")
        door.opened.set()

    assert shapes(manager.conversation.messages) == ["user", "calls", "results", "assistant", "user", "assistant"]
    assert len(provider.requests) == 3
    names = [event.event.name for _, event in log.events]
    assert names.count("message_queued") == names.count("message_dequeued") == names.count("workflow_end") == 1


async def test_wf_6_the_conversation_tells_of_queued_messages_too(managed):
    manager, _ = managed("one", "two")
    log = Log()
    log.hear("C", manager.conversation)
    manager.queue_message("more")
    await manager.run("go")

    assert [name for name in log.names() if name.startswith("input_")] == ["input_queued", "input_sent"]


@pytest.mark.parametrize("empty", ["", "\n", [], [TextContent("")]])
async def test_wf_7_queueing_nothing_is_refused_and_ends_nothing(managed, empty):
    manager, _ = managed("one")
    refused = []

    def queue(event):
        with pytest.raises(ConfigurationError):
            event.workflow.queue_message(empty)

        refused.append(event)

    manager.on(WorkflowBegin, queue)

    with pytest.raises(ConfigurationError):
        manager.queue_message(empty)

    result = await manager.run("go")
    assert (result.reason, len(refused)) == ("complete", 1)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (reply("cut", stop_reason="max_tokens"), "truncated"),
        (reply("no", stop_reason="refusal"), "refusal"),
        (fault(ServerError("down")), "error"),
        (reply("bad", stop_reason="error"), "error"),
    ],
)
async def test_wf_17_after_another_end_queued_messages_wait_for_the_next_workflow(managed, step, reason):
    manager, provider = managed(step, "fine", "queued too", policy=NoopPolicy())
    manager.queue_message("later")
    result = await manager.run("go")
    await settle()

    assert result.reason == reason
    assert len(provider.requests) == 1  # nothing starts by itself
    assert [waiting.message.content[0].text for waiting in manager.conversation.queued] == ["later"]

    again = await manager.run("again")
    assert again.text == "queued too"
    assert manager.conversation.queued == ()


async def test_wf_17_a_cancel_leaves_the_queue_and_waiting_prompts_follow(managed):
    door = Door()
    manager, provider = managed(calls(("door", {})), "answer", "queued", toolkit=[door.tool], when_busy="queue")
    results = {}

    async def ask(text):
        results[text] = await manager.run(text)

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "go")
        await door.entered.wait()
        manager.queue_message("later")
        group.start_soon(ask, "waiting")
        await settle()
        manager.conversation.cancel_response()

    assert results["go"].reason == "cancel"
    assert results["waiting"].text == "queued"  # its own workflow, which also takes the queued message
    assert [message.content[0].text for message in results["waiting"].messages] == [
        "waiting",
        "answer",
        "later",
        "queued",
    ]
    assert len(provider.requests) == 3


async def test_wf_17_a_cancel_after_the_last_reply_takes_no_message_off_the_queue(managed):
    manager, provider = managed("one", "two")
    manager.queue_message("later")
    manager.conversation.once("message_complete", lambda event: manager.conversation.cancel_response())
    result = await manager.run("go")

    assert result.text == "one"
    assert len(provider.requests) == 1
    assert len(manager.conversation.queued) == 1


async def test_wf_17_a_run_that_was_limited_takes_no_message_off_the_queue(managed):
    manager, provider = managed(calls(("add", {"a": 1, "b": 2})), "the end", toolkit=[add], max_rounds=1)
    manager.queue_message("later")
    result = await manager.run("go")

    assert (result.reason, result.text) == ("limit", "the end")
    assert len(provider.requests) == 2
    assert len(manager.conversation.queued) == 1


async def test_wf_17_a_cancel_that_comes_with_the_announcement_puts_the_message_back(managed):
    manager, provider = managed("one", "two")
    manager.queue_message("later")

    def cancel(event):
        if event.event.name == "message_dequeued":
            manager.conversation.cancel_response()

    manager.on("workflow_event", cancel)
    result = await manager.run("go")

    assert result.text == "one"
    assert len(provider.requests) == 1
    assert len(manager.conversation.queued) == 1
    assert shapes(manager.conversation.messages) == ["user", "assistant"]


async def test_wf_17_a_message_taken_off_the_queue_is_not_lost_to_a_cancelled_task(managed):
    manager, provider = managed("one", "two", "three")
    manager.queue_message("later")
    scope = anyio.CancelScope()

    async def cancel(event):
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    manager.on(WorkflowBegin, lambda event: event.workflow.once(MessageDequeued, cancel))

    with scope:
        await manager.run("go")

    assert scope.cancelled_caught
    assert len(provider.requests) == 1
    assert [waiting.message.content[0].text for waiting in manager.conversation.queued] == ["later"]
    assert (await manager.run("again")).text == "three"


async def test_wf_17_a_message_is_put_back_also_when_the_queue_has_filled_up_meanwhile(managed):
    manager, provider = managed("one", "two")
    manager.queue_message("first")
    taken = manager.conversation.queued[0].input_id

    def fill_and_cancel(event):
        if event.event.name == "message_dequeued":
            for n in range(32):
                manager.queue_message(f"m{n}")

            manager.conversation.cancel_response()

    manager.on("workflow_event", fill_and_cancel)
    result = await manager.run("go")

    assert (result.reason, result.text) == ("complete", "one")
    assert len(provider.requests) == 1
    assert len(manager.conversation.queued) == 33
    assert manager.conversation.queued[0].input_id == taken


async def test_wf_17_the_queue_is_the_conversations_and_holds_32(managed):
    manager, _ = managed("one")

    for n in range(32):
        manager.queue_message(f"m{n}")

    with pytest.raises(InvalidStateError, match="32"):
        manager.queue_message("one too many")

    assert len(manager.conversation.queued) == 32
    workflow = Workflow(manager.conversation)
    log = Log()
    log.hear("W", workflow)
    assert len(workflow.queued_messages) == 32
    assert workflow.clear_queue() == 32
    assert workflow.clear_queue() == 0
    assert [(event.name, event.count) for _, event in log.events] == [("queue_cleared", 32), ("queue_cleared", 0)]
    assert manager.conversation.queued == ()


async def test_w_wf_8_the_queue_takes_content_blocks_and_survives_errors(managed):
    picture = MediaContent(kind="image", media_type="image/png", data=b"png")
    manager, provider = managed(fault(ServerError("down")), "one", "two", policy=NoopPolicy(), toolkit=[add])
    manager.queue_message([TextContent("look"), picture])
    assert (await manager.run("go")).reason == "error"
    await manager.run("again")

    sent = provider.requests[-1].messages[-1]
    assert [block.type for block in sent.content] == ["text", "media"]
    assert sent.content[1].data == b"png"


async def test_a_disposed_workflow_takes_no_messages(managed):
    manager, _ = managed("one")
    ended = []
    manager.on(WorkflowBegin, lambda event: event.workflow.on(WorkflowEnd, lambda event: ended.append(event.workflow)))
    await manager.run("go")

    with pytest.raises(InvalidStateError, match="disposed"):
        ended[0].queue_message("late")
