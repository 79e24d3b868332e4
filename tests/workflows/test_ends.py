"""How a workflow ends, and that it says so."""

from __future__ import annotations

import pytest
from tool_loops import Log, add, counting, outcomes, shapes

from simulacra.errors import (
    DurabilityError,
    InvalidStateError,
    ProviderError,
    ServerError,
    SimulacraError,
    StreamInterruptedError,
)
from simulacra.journal import Journal
from simulacra.messages import Usage
from simulacra.policies import NoopPolicy
from simulacra.streaming import MessageStart, MessageStop, TextDelta, ToolArgumentsDelta, ToolCallStart
from simulacra.testing import calls, fault, fault_after, reply
from simulacra.workflows import Workflow
from simulacra.workflows.events import WorkflowEnd

pytestmark = pytest.mark.anyio

REASONS = [
    ("end_turn", "complete"),
    ("stop_sequence", "complete"),
    ("other", "complete"),
    ("max_tokens", "truncated"),
    ("context_window", "truncated"),
    ("pause", "truncated"),
    ("refusal", "refusal"),
    ("content_filter", "refusal"),
    ("error", "error"),
]


@pytest.mark.parametrize(("stop_reason", "reason"), REASONS)
async def test_wf_8_each_stop_reason_gives_its_end_reason(managed, stop_reason, reason):
    manager, _ = managed(reply("text", stop_reason=stop_reason), toolkit=[add])
    result = await manager.run("go")

    assert result.reason == reason
    assert result.response.stop_reason == stop_reason


@pytest.mark.parametrize(("stop_reason", "reason"), REASONS)
async def test_w_wf_4_the_end_shows_what_happened_also_after_tools(managed, stop_reason, reason):
    usages = [Usage(input_tokens=10, output_tokens=1), Usage(input_tokens=20, output_tokens=2)]
    manager, _ = managed(
        calls(("add", {"a": 1, "b": 2}), usage=usages[0]),
        reply("the end", stop_reason=stop_reason, usage=usages[1]),
        toolkit=[add],
    )
    log = Log()
    log.hear("M", manager, "workflow_event")
    result = await manager.run("go")
    (end,) = [event.event for _, event in log.events if isinstance(event.event, WorkflowEnd)]

    assert end.result is result
    assert end.reason == result.reason == reason
    assert result.response.message is manager.conversation.messages[-1]
    assert (result.usage.input_tokens, result.usage.output_tokens) == (30, 3)
    assert (result.rounds, len(result.messages)) == (2, 4)


async def test_wf_8_a_cancel_is_a_cancel(managed):
    manager, _ = managed("unheard")
    manager.conversation.once("prompt_send", lambda event: manager.conversation.cancel_response())
    result = await manager.run("go")

    assert result.reason == "cancel"
    assert result.response.cancelled
    assert result.text == ""


async def test_wf_9_tool_use_without_a_call_sends_nothing_and_is_complete(managed):
    manager, provider = managed(reply("well", stop_reason="tool_use"), toolkit=[add])
    result = await manager.run("go")

    assert (result.reason, result.text) == ("complete", "well")
    assert len(provider.requests) == 1
    assert shapes(manager.conversation.messages) == ["user", "assistant"]


async def test_wf_10_a_failed_turn_ends_with_the_error_and_what_there_was(managed):
    error = ServerError("down")
    manager, _ = managed(
        calls(("add", {"a": 1, "b": 2}), usage=Usage(input_tokens=7)), fault(error), toolkit=[add], policy=NoopPolicy()
    )
    result = await manager.run("go")

    assert result.reason == "error"
    assert result.error is error
    assert shapes(result.messages) == ["user", "calls", "results"]
    assert result.usage.input_tokens == 7
    assert result.rounds == 1

    with pytest.raises(ServerError):
        result.raise_for_error()

    with pytest.raises(ServerError):
        _ = result.text


async def test_wf_10_usage_of_the_failed_reply_counts(managed):
    manager, _ = managed(
        [MessageStart(usage=Usage(input_tokens=3)), TextDelta(0, "x"), fault(ServerError("down"))], policy=NoopPolicy()
    )
    result = await manager.run("go")
    assert result.usage.input_tokens == 3
    assert result.error.partial.text == "x"


async def test_w_wf_7_no_error_is_swallowed(scripted):
    def broken(request):
        raise ZeroDivisionError("a provider's bug")

    for step, kind in ((broken, ProviderError), (fault_after("x", ServerError("down")), ServerError)):
        conversation, _ = scripted(step, toolkit=[add], policy=NoopPolicy())

        with pytest.raises(kind):
            await conversation.prompt("go")

        conversation, _ = scripted(step, toolkit=[add], policy=NoopPolicy())
        result = await Workflow(conversation).start("go")
        assert isinstance(result.error, kind)
        assert result.reason == "error"


async def test_w_wf_7_a_failure_of_the_engine_while_it_makes_a_call_ends_the_run_and_leaves_no_call_open(
    managed, monkeypatch
):
    counted, notes = counting()
    manager, provider = managed(calls(("count", {"n": 1}), ("count", {"n": 2})), "never", toolkit=[counted])
    record = Journal.record

    def fail(self, *drafts):
        if any(draft.kind == "tool_result" and draft.body["content"].result.result for draft in drafts):
            raise DurabilityError("disk full")

        return record(self, *drafts)

    monkeypatch.setattr(Journal, "record", fail)
    result = await manager.run("go")

    assert result.reason == "error"
    assert isinstance(result.error, DurabilityError)
    assert len(provider.requests) == 1
    assert shapes(manager.conversation.messages) == ["user", "calls", "results"]
    assert not manager.conversation.is_busy


async def test_a_reply_that_ended_in_an_error_raises_only_when_asked(managed):
    manager, _ = managed(reply("half", stop_reason="error"))
    result = await manager.run("go")
    assert result.response.text == "half"

    with pytest.raises(SimulacraError):
        _ = result.text


async def test_the_text_of_a_run_that_was_cut_is_what_there_was(managed):
    manager, _ = managed(reply("half", stop_reason="max_tokens"))
    result = await manager.run("go")
    assert (result.reason, result.text) == ("truncated", "half")
    result.raise_for_error()


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "content_filter", "context_window", "stop_sequence"])
async def test_wf_16_a_reply_that_did_not_stop_for_its_calls_runs_none_of_them(managed, stop_reason):
    counted, notes = counting()
    manager, provider = managed(
        calls(("count", {"n": 1}), ("count", {"n": 2}), stop_reason=stop_reason), "next", toolkit=[counted]
    )
    result = await manager.run("go")

    assert notes == []
    assert len(provider.requests) == 1
    assert shapes(manager.conversation.messages) == ["user", "calls", "results"]
    assert result.messages == manager.conversation.messages
    given = outcomes(manager.conversation.messages[-1])
    assert [outcome["result"] for outcome in given] == [False, False]
    assert all("cut off" in outcome["message"] and stop_reason in outcome["message"] for outcome in given)
    assert result.reason == dict(REASONS)[stop_reason]
    assert list(manager.conversation.journal.entries(kinds={"tool_intent"})) == []

    await manager.run("go on")
    assert shapes(provider.requests[1].messages) == ["user", "calls", "results", "user"]


async def test_w_wf_2_a_truncated_call_is_never_executed(managed):
    """The arguments end in the middle, or could even be read: the reply was cut at its token limit (TL-R3)."""
    counted, notes = counting()

    for cut in ('{"n": 1', '{"n": 1}', ""):
        script = [
            MessageStart(),
            ToolCallStart(0, "t1", "count"),
            ToolArgumentsDelta(0, cut),
            MessageStop("max_tokens"),
        ]
        manager, provider = managed(script, toolkit=[counted])
        result = await manager.run("go")

        assert result.reason == "truncated"
        assert "cut off" in outcomes(manager.conversation.messages[-1])[0]["message"]
        assert len(provider.requests) == 1

    assert notes == []


async def test_wf_16_in_a_reply_that_stopped_for_its_calls_an_unreadable_one_is_answered_and_the_others_run(managed):
    counted, notes = counting()
    manager, provider = managed(calls(("count", '{"n": 1'), ("count", {"n": 2})), "done", toolkit=[counted])
    result = await manager.run("go")

    assert (result.reason, result.text) == ("complete", "done")
    assert notes == [2]
    broken, fine = outcomes(provider.requests[1].messages[-1])
    assert not broken["result"]
    assert fine == {"result": True, "output": 2}


async def test_a_stream_without_its_closing_event_runs_no_call(managed):
    counted, notes = counting()
    manager, _ = managed(
        [MessageStart(), ToolCallStart(0, "t1", "count"), ToolArgumentsDelta(0, '{"n": 1}')],
        toolkit=[counted],
        policy=NoopPolicy(),
    )
    result = await manager.run("go")

    assert isinstance(result.error, StreamInterruptedError)
    assert notes == []
    assert manager.conversation.messages == ()


async def test_wf_15_a_workflow_that_was_not_started_does_nothing(scripted):
    conversation, provider = scripted("hello")
    workflow = Workflow(conversation, context_data={"a": 1})
    log = Log()
    log.hear("W", workflow)
    workflow.cancel()

    assert workflow.state == "idle"
    assert workflow.messages == ()
    assert workflow.result is None
    assert log.events == []
    assert provider.requests == []
    assert (await conversation.prompt("hi")).text == "hello"
    assert log.events == []


async def test_a_workflow_starts_once(scripted):
    conversation, provider = scripted("hello")
    workflow = Workflow(conversation)
    await workflow.start("hi")

    with pytest.raises(InvalidStateError, match="disposed"):
        await workflow.start("again")

    assert len(provider.requests) == 1
