"""Bounds of a tool loop: rounds, calls, sizes, and the last request without tools."""

from __future__ import annotations

import pytest
from tool_loops import Door, Log, add, counting, outcomes, settle, shapes

from simulacra.errors import BudgetExceededError, ConfigurationError, ToolRetry
from simulacra.messages import Usage
from simulacra.policies import NoopPolicy, Policy
from simulacra.provider import RequestOptions
from simulacra.testing import calls, fault, reply
from simulacra.tools import tool
from simulacra.workflows import FINAL_SYSTEM_PROMPT, LoopOptions, Workflow, WorkflowManager

pytestmark = pytest.mark.anyio


def asking(n=0, **options):
    return calls(("count", {"n": n}), **options)


async def test_wf_5_at_the_round_limit_the_tools_run_and_one_request_without_tools_follows(managed):
    counted, notes = counting()
    manager, provider = managed(
        asking(1),
        asking(2),
        "the end",
        toolkit=[counted],
        max_rounds=2,
        system="Be brief.",
        final_system_prompt="Stop.",
    )
    result = await manager.run("go")

    assert (result.reason, result.text, result.rounds) == ("limit", "the end", 3)
    assert notes == [1, 2]
    assert [request.options.tool_choice for request in provider.requests] == [None, None, "none"]
    assert [request.system for request in provider.requests] == [("Be brief.",), ("Be brief.",), ("Be brief.", "Stop.")]
    assert [[tool.name for tool in request.tools] for request in provider.requests] == [["count"]] * 3
    assert shapes(provider.requests[-1].messages) == ["user", "calls", "results", "calls", "results"]


async def test_wf_5_scenario_9_a_model_that_always_calls_tools_stops(managed):
    counted, notes = counting()
    manager, provider = managed(*[asking(n) for n in range(5)], "enough", toolkit=[counted], max_rounds=5)
    result = await manager.run("go")

    assert result.reason == "limit"
    assert result.text == "enough"
    assert len(notes) == 5
    assert len(provider.requests) == 6
    assert provider.requests[-1].system == (FINAL_SYSTEM_PROMPT,)


async def test_w_wf_3_a_model_that_calls_tools_even_in_the_last_request_stops_there(managed):
    counted, notes = counting()
    manager, provider = managed(*[asking(n) for n in range(3)], toolkit=[counted], max_rounds=2)
    result = await manager.run("go")

    assert result.reason == "limit"
    assert notes == [0, 1]
    assert len(provider.requests) == 3
    assert outcomes(manager.conversation.messages[-1])[0]["error"] == "limit"
    assert shapes(result.messages) == ["user", "calls", "results", "calls", "results", "calls", "results"]


async def test_w_wf_3_the_default_limit_is_fifty_replies(scripted):
    counted, notes = counting()
    conversation, provider = scripted(*[asking()] * 50, "enough", toolkit=[counted])
    response = await conversation.prompt("go")

    assert response.text == "enough"
    assert len(notes) == 50
    assert len(provider.requests) == 51


async def test_wf_5_no_final_prompt_leaves_the_system_prompt_alone(managed):
    counted, _ = counting()
    manager, provider = managed(
        asking(), "end", toolkit=[counted], max_rounds=1, final_system_prompt=None, system="Be brief."
    )
    assert (await manager.run("go")).reason == "limit"
    assert provider.requests[-1].system == ("Be brief.",)
    assert manager.conversation.system == "Be brief."


async def test_wf_5_calls_beyond_the_call_limit_get_errors_and_lead_to_the_last_request(managed):
    counted, notes = counting()
    asked = calls(*(("count", {"n": n}) for n in (1, 2, 3, 4)))
    manager, provider = managed(asking(0), asked, "the end", toolkit=[counted], max_tool_calls=3)
    result = await manager.run("go")

    assert (result.reason, result.text) == ("limit", "the end")
    assert sorted(notes) == [0, 1, 2]
    given = outcomes(provider.requests[-1].messages[-1])
    assert [outcome["result"] for outcome in given] == [True, True, False, False]
    assert "3 tool calls" in given[-1]["message"]
    assert provider.requests[-1].options.tool_choice == "none"


async def test_wf_5_a_call_limit_that_is_just_reached_ends_nothing(managed):
    counted, notes = counting()
    manager, provider = managed(asking(1), asking(2), "the end", toolkit=[counted], max_tool_calls=2)
    result = await manager.run("go")

    assert (result.reason, result.text) == ("complete", "the end")
    assert notes == [1, 2]
    assert provider.requests[-1].options.tool_choice is None


@pytest.mark.parametrize(
    ("stop_reason", "reason"), [("max_tokens", "truncated"), ("refusal", "refusal"), ("end_turn", "limit")]
)
async def test_wf_5_a_last_answer_that_went_wrong_itself_says_so(managed, stop_reason, reason):
    counted, _ = counting()
    manager, _ = managed(asking(), reply("the e", stop_reason=stop_reason), toolkit=[counted], max_rounds=1)
    result = await manager.run("go")

    assert result.reason == reason
    assert result.response.stop_reason == stop_reason


async def test_wf_5_a_cancelled_last_request_is_a_cancel(managed):
    counted, _ = counting()
    manager, _ = managed(asking(), "unheard", toolkit=[counted], max_rounds=1)

    def cancel(event):
        if event.message.content[0].type == "tool_result":
            manager.conversation.cancel_response()

    manager.conversation.on("prompt_send", cancel)
    assert (await manager.run("go")).reason == "cancel"


async def test_tls_40_a_choice_that_forces_a_call_holds_for_the_first_request_only(managed):
    for forced in ("any", "count"):
        counted, _ = counting()
        manager, provider = managed(asking(), asking(), "end", toolkit=[counted], tool_choice=forced)
        await manager.run("go")
        assert [request.options.tool_choice for request in provider.requests] == [forced, "auto", "auto"]


@pytest.mark.parametrize("free", ["auto", "none"])
async def test_tls_40_a_free_choice_holds_throughout(managed, free):
    counted, _ = counting()
    manager, provider = managed(asking(), "end", toolkit=[counted], tool_choice=free)
    await manager.run("go")
    assert [request.options.tool_choice for request in provider.requests] == [free, free]


async def test_tls_40_the_choice_of_a_call_and_of_the_conversation_are_bound_so_too(scripted):
    counted, _ = counting()
    conversation, provider = scripted(
        asking(), "end", asking(), "end", toolkit=[counted], options=RequestOptions(tool_choice="any")
    )
    await conversation.prompt("go")
    await conversation.prompt("go", tool_choice="count")
    assert [request.options.tool_choice for request in provider.requests] == ["any", "auto", "count", "auto"]


async def test_tls_40_the_choice_of_a_call_goes_before_the_managers_and_that_before_the_conversations(managed):
    counted, _ = counting()
    manager, provider = managed(
        *["end"] * 3, toolkit=[counted], tool_choice="auto", options=RequestOptions(tool_choice="any")
    )
    await manager.run("go")
    await manager.run("go", tool_choice="none")
    await manager.conversation.prompt("go", tool_choice="count")
    assert [request.options.tool_choice for request in provider.requests] == ["auto", "none", "count"]


async def test_tls_40_a_queued_message_is_no_first_request(managed):
    counted, _ = counting()
    manager, provider = managed(asking(), "one", "two", toolkit=[counted], tool_choice="any")
    manager.queue_message("more")
    await manager.run("go")
    assert [request.options.tool_choice for request in provider.requests] == ["any", "auto", "auto"]


async def test_tls_40_on_tool_result_is_told_each_result_in_completion_order_after_it_was_recorded(managed):
    slow = Door("slow")
    told = []

    def tell(info):
        entries = list(manager.conversation.journal.entries(kinds={"tool_result"}))
        told.append((info.call.tool, info.result.result.result, entries[-1].body["content"] is info.result))
        slow.opened.set()

    async def tell_later(info):
        await settle(2)
        tell(info)

    for hook in (tell, tell_later):
        told.clear()
        slow = Door("slow")
        manager, provider = managed(
            calls(("slow", {}), ("add", {"a": 1, "b": 2})), "end", toolkit=[slow.tool, add], on_tool_result=hook
        )
        await manager.run("go")
        assert told == [("add", True, True), ("slow", True, True)]
        assert provider.requests[1].messages[-1].content[0].tool == "slow"


async def test_tls_40_what_on_tool_result_is_told(managed, fake_clock):
    @tool
    async def wait() -> None:
        """Wait."""
        await fake_clock.advance(0.25)

    told = []
    manager, _ = managed(calls(("wait", {}, "t1")), "end", toolkit=[wait], on_tool_result=told.append)
    log = Log()
    log.hear("C", manager.conversation, "message_complete")
    await manager.run("go")

    assert told[0].call.tool_request_id == told[0].result.tool_request_id == "t1"
    assert told[0].request_id == log.events[0][1].request_id
    assert told[0].duration_ms == 250


async def test_tls_40_what_on_tool_result_raises_is_reported_and_stops_nothing(managed):
    def refuse(info):
        raise ValueError("no")

    manager, _ = managed(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add], on_tool_result=refuse)
    log = Log()
    log.hear("C", manager.conversation, "lifecycle_error")
    result = await manager.run("go")

    assert (result.reason, result.text) == ("complete", "3")
    assert [event.operation for _, event in log.events] == ["on_tool_result"]


async def test_tls_41_a_follow_up_has_the_options_of_the_first_request(scripted):
    conversation, provider = scripted(
        calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add], options=RequestOptions(max_tokens=100), system="Be brief."
    )
    await conversation.prompt("go", temperature=0.5, max_tokens=50)
    first, follow_up = provider.requests

    assert first.options == follow_up.options
    assert (follow_up.options.max_tokens, follow_up.options.extra["temperature"]) == (50, 0.5)
    assert first.system == follow_up.system == ("Be brief.",)
    assert first.tools == follow_up.tools


async def test_tls_42_results_are_bounded(managed):
    @tool
    async def shout() -> str:
        """Say much."""
        return "a" * 10_000

    manager, _ = managed(calls(("shout", {})), "end", toolkit=[shout], max_result_bytes=1000)
    await manager.run("go")
    given = manager.conversation.messages[2].content[0].result
    assert len(given.model_dump_json()) <= 1000


async def test_tls_42_a_tool_may_ask_for_another_try_three_times_in_a_run(managed):
    @tool
    async def picky() -> None:
        """Refuse."""
        raise ToolRetry("Say please.")

    manager, provider = managed(*[calls(("picky", {}))] * 4, "end", toolkit=[picky])
    result = await manager.run("go")
    given = [outcomes(message)[0] for message in result.messages if shapes([message]) == ["results"]]

    assert len(provider.requests) == 5
    assert ["again" in outcome["message"] for outcome in given] == [True, True, True, False]


async def test_wf_8_a_used_up_budget_is_a_limit(managed):
    class Broke(Policy):
        def __init__(self):
            self.left = 1

        async def execute(self, cancellation_token, fn, *args):
            if not self.left:
                raise BudgetExceededError("no money")

            self.left -= 1

            return await NoopPolicy().execute(cancellation_token, fn, *args)

    manager, _ = managed(
        calls(("add", {"a": 1, "b": 2}), usage=Usage(input_tokens=5)), "3", toolkit=[add], policy=Broke()
    )
    result = await manager.run("go")

    assert result.reason == "limit"
    assert isinstance(result.error, BudgetExceededError)
    assert result.usage.input_tokens == 5
    assert shapes(manager.conversation.messages) == ["user", "calls", "results"]

    with pytest.raises(BudgetExceededError):
        result.raise_for_error()


@pytest.mark.parametrize(
    "wrong", [{"max_rounds": 0}, {"max_concurrency": 0}, {"max_result_bytes": 0}, {"max_tool_calls": -1}]
)
async def test_bounds_that_cannot_be_right_are_refused(scripted, wrong):
    conversation, _ = scripted(fault(AssertionError("nothing is sent")))

    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        WorkflowManager(conversation, **wrong)

    with pytest.raises(ConfigurationError):
        Workflow(conversation, options=LoopOptions(**wrong))

    WorkflowManager(conversation)  # the refused one did not take the place
