"""The manager: a result per run, keys, resuming."""

from __future__ import annotations

import pytest
from tool_loops import Asked, Door, add, counting, settle, shapes

from simulacra.errors import InvalidStateError, ServerError
from simulacra.messages import (
    AssistantMessage,
    TextContent,
    ToolContent,
    ToolResultContent,
    ToolSuccessResult,
    UserMessage,
)
from simulacra.policies import NoopPolicy
from simulacra.testing import calls, fault
from simulacra.workflows.events import WorkflowBegin

pytestmark = pytest.mark.anyio


async def test_mgr_3_run_gives_the_result_of_its_own_workflow_and_never_raises_for_the_model(managed):
    manager, _ = managed("one", fault(ServerError("down")), "three", policy=NoopPolicy())
    one, two, three = [await manager.run(text) for text in ("a", "b", "c")]

    assert (one.reason, one.text) == ("complete", "one")
    assert two.reason == "error"
    assert isinstance(two.error, ServerError)
    assert (three.reason, three.text) == ("complete", "three")
    assert [len(result.messages) for result in (one, two, three)] == [2, 1, 2]


@pytest.mark.parametrize("when_busy", ["queue", "interrupt", "merge", "latest", "reject"])
async def test_w_mgr_1_concurrent_runs_each_get_their_own_result(managed, group, when_busy):
    door = Door()
    manager, provider = managed(calls(("door", {})), otherwise, "spare", toolkit=[door.tool], when_busy=when_busy)
    provider.add(otherwise, otherwise)
    begun = []
    manager.on(WorkflowBegin, begun.append)
    asked = {}

    async def ask(text):
        try:
            return await manager.run(text)
        except InvalidStateError as error:
            return error

    asked["a"] = Asked(group, ask, "a")
    await door.entered.wait()

    for text in ("b", "c"):
        asked[text] = Asked(group, ask, text)

        if when_busy != "interrupt":  # which takes in what comes while it stops
            await settle()

    await settle()
    door.opened.set()

    for one in asked.values():
        await one.ended.wait()

    a, b, c = (one.outcome for one in asked.values())

    match when_busy:
        case "reject":
            assert a.reason == "complete"
            assert isinstance(b, InvalidStateError)
            assert isinstance(c, InvalidStateError)
        case "queue":
            assert [result.reason for result in (a, b, c)] == ["complete"] * 3
            assert [texts(result) for result in (b, c)] == [["b"], ["c"]]
            assert len(begun) == 3
        case "merge":
            assert a.reason == "complete"
            assert texts(b) == ["b", "c"]
            assert c.response is b.response
            assert len(begun) == 2
        case "latest":
            assert a.reason == "complete"
            assert (b.reason, b.response.stop_details) == ("cancel", "superseded")
            assert texts(c) == ["c"]
        case "interrupt":
            assert a.reason == "cancel"
            assert shapes(a.messages) == ["user", "calls", "results"]
            assert sorted(texts(b) or texts(c)) == ["b", "c"]
            assert c.response is b.response


def otherwise(request):
    return f"answer {len(request.messages)}"


def texts(result):
    return [block.text for message in result.messages if message.role == "user" for block in message.content]


async def test_mgr_3_a_run_that_joined_another_one_reports_its_failure(managed, group):
    door = Door()
    manager, _ = managed(
        calls(("door", {})),
        "one",
        fault(ServerError("down")),
        toolkit=[door.tool],
        when_busy="merge",
        policy=NoopPolicy(),
    )
    first = Asked(group, manager.run, "a")
    await door.entered.wait()
    joined = [Asked(group, manager.run, "b"), Asked(group, manager.run, "c")]
    await settle()
    door.opened.set()

    for one in (first, *joined):
        await one.ended.wait()

    assert first.outcome.reason == "complete"
    assert [one.outcome.reason for one in joined] == ["error", "error"]
    assert joined[0].outcome.error is joined[1].outcome.error


async def test_mgr_3_a_used_key_never_sends_twice(managed, group):
    door = Door()
    manager, provider = managed(calls(("door", {})), "one", "two", toolkit=[door.tool])

    async def ask(text):
        return await manager.run(text, key="k")

    asked = [Asked(group, ask, text) for text in ("go", "go", "go")]
    await door.entered.wait()
    await settle()
    door.opened.set()

    for one in asked:
        await one.ended.wait()

    assert asked[0].outcome is asked[1].outcome is asked[2].outcome
    assert await manager.run("anything", key="k") is asked[0].outcome
    assert len(provider.requests) == 2
    assert (await manager.run("other", key="other")).text == "two"


async def test_mgr_3_a_key_whose_first_run_was_refused_is_still_free(managed, group):
    door = Door()
    manager, provider = managed(calls(("door", {})), "one", "two", toolkit=[door.tool])
    running = Asked(group, manager.run, "go")
    await door.entered.wait()

    with pytest.raises(InvalidStateError):
        await manager.run("later", key="k")

    door.opened.set()
    await running.ended.wait()
    assert (await manager.run("later", key="k")).text == "two"
    assert len(provider.requests) == 3


async def test_mgr_3_a_cancelled_caller_leaves_its_result_under_its_key_for_everybody(managed, group):
    door = Door()
    manager, provider = managed(calls(("door", {})), "one", toolkit=[door.tool])

    async def ask():
        return await manager.run("go", key="k")

    first = Asked(group, ask)
    await door.entered.wait()
    second, third = Asked(group, ask), Asked(group, ask)
    await settle()
    first.scope.cancel()

    for one in (first, second, third):
        await one.ended.wait()

    assert first.outcome is None
    assert second.outcome is third.outcome
    assert second.outcome.reason == "cancel"
    assert len(provider.requests) == 1
    assert (await manager.run("go", key="k")) is second.outcome


async def test_mgr_3_resume_goes_on_with_a_history_that_ends_in_a_user_message(managed):
    manager, provider = managed(
        calls(("add", {"a": 1, "b": 2})), fault(ServerError("down")), "3", toolkit=[add], policy=NoopPolicy()
    )
    assert (await manager.run("go")).reason == "error"
    before = manager.conversation.messages
    result = await manager.resume(max_tokens=9)

    assert (result.reason, result.text) == ("complete", "3")
    assert provider.requests[2].messages == provider.requests[1].messages == before
    assert provider.requests[2].options.max_tokens == 9
    assert shapes(manager.conversation.messages) == ["user", "calls", "results", "assistant"]
    assert shapes(result.messages) == ["results", "assistant"]


async def test_mgr_3_resume_conducts_tools_again(managed):
    counted, notes = counting()
    manager, provider = managed(
        calls(("count", {"n": 1})),
        fault(ServerError("down")),
        calls(("count", {"n": 2})),
        "done",
        toolkit=[counted],
        policy=NoopPolicy(),
    )
    await manager.run("go")
    result = await manager.resume()

    assert result.text == "done"
    assert notes == [1, 2]
    ids = [message.id for message in manager.conversation.messages]
    assert len(set(ids)) == len(ids)
    assert shapes(provider.requests[-1].messages) == ["user", "calls", "results", "calls", "results"]


async def test_mgr_3_resume_refuses_results_without_their_calls(managed):
    manager, provider = managed("never")
    orphan = ToolResultContent(tool_request_id="gone", tool="add", result=ToolSuccessResult(result=True))
    manager.conversation.load(
        [
            UserMessage((TextContent("go"),)),
            AssistantMessage((ToolContent(tool_request_id="other", tool="add", params={}),)),
            UserMessage((orphan,)),
        ]
    )

    with pytest.raises(InvalidStateError, match="asks for a reply"):
        await manager.resume()

    assert provider.requests == []


async def test_mgr_3_resume_refuses_everything_else(managed, group):
    door = Door()
    manager, _ = managed("one", calls(("door", {})), "two", toolkit=[door.tool])

    with pytest.raises(InvalidStateError, match="user message"):
        await manager.resume()

    await manager.run("go")

    with pytest.raises(InvalidStateError, match="user message"):
        await manager.resume()

    running = Asked(group, manager.run, "go")
    await door.entered.wait()

    with pytest.raises(InvalidStateError, match="busy"):
        await manager.resume()

    door.opened.set()
    await running.ended.wait()


async def test_mgr_4_w_mgr_3_a_checkpoint_makes_no_manager_busy_and_refuses_no_run(managed, group):
    manager, _ = managed("one", "two", "the summary")
    await manager.run("go")
    states, results = [], []

    async def run(event):
        states.append(manager.state)
        results.append(await manager.run("meanwhile"))

    manager.conversation.once("checkpoint_begin", run)
    manager.conversation.on("child_event", lambda event: states.append(manager.state))
    state = await manager.conversation.checkpoint()

    assert set(states) == {"idle"}
    assert state.summary == "the summary"
    assert [result.text for result in results] == ["two"]


async def test_w_mgr_3_a_checkpoint_taken_while_tools_run_leaves_the_manager_busy_with_them(managed, group):
    door = Door()
    manager, provider = managed(calls(("door", {})), "the summary", "done", toolkit=[door.tool])
    running = Asked(group, manager.run, "go")
    await door.entered.wait()
    state = await manager.conversation.checkpoint()

    assert manager.state == "busy"
    assert manager.current_workflow.state == "busy"
    assert state.message_id == manager.conversation.messages[1].id
    door.opened.set()
    await running.ended.wait()

    assert running.outcome.text == "done"
    sent = provider.requests[-1].messages
    assert shapes(sent)[-2:] == ["calls", "results"]
    assert "the summary" in sent[0].content[0].text
