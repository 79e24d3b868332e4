"""Between the rounds: what the next request carries, what becomes of results when it fails, and what changed meanwhile."""

from __future__ import annotations

import pytest
from tool_loops import Door, Log, add, counting, outcomes, shapes

from simulacra.errors import RateLimitError, ServerError
from simulacra.policies import NoopPolicy, RetryPolicy
from simulacra.schema import ToolDefinition
from simulacra.testing import calls, fault
from simulacra.tools import ToolClass, tool
from simulacra.transformers import ContextTransformer

pytestmark = pytest.mark.anyio


async def test_scenario_25_w_wf_6_a_failed_follow_up_keeps_the_result_and_never_runs_the_tool_again(managed):
    counted, notes = counting()
    manager, provider = managed(
        calls(("count", {"n": 1})), fault(ServerError("down")), "fine", toolkit=[counted], policy=NoopPolicy()
    )
    conversation = manager.conversation
    result = await manager.run("go")

    assert result.reason == "error"
    assert shapes(conversation.messages) == ["user", "calls", "results"]
    assert outcomes(conversation.messages[-1]) == [{"result": True, "output": 1}]
    assert conversation.journal.attempts()[-1].inputs == ()

    assert (await conversation.prompt("and now?")).text == "fine"
    assert shapes(provider.requests[2].messages) == ["user", "calls", "results", "user"]
    assert notes == [1]


async def test_scenario_25_without_a_manager_the_error_is_raised_and_the_results_stay(scripted):
    counted, notes = counting()
    conversation, _ = scripted(
        calls(("count", {"n": 1})), fault(ServerError("down")), "fine", toolkit=[counted], policy=NoopPolicy()
    )

    with pytest.raises(ServerError):
        await conversation.prompt("go")

    assert shapes(conversation.messages) == ["user", "calls", "results"]
    assert (await conversation.prompt("again")).text == "fine"
    assert notes == [1]


async def test_rt_r5_a_retry_repeats_the_request_never_a_tool(scripted, jumping):
    counted, notes = counting()
    conversation, provider = scripted(
        calls(("count", {"n": 1})),
        fault(RateLimitError("slow down", retry_after=3)),
        fault(ServerError("down")),
        "done",
        toolkit=[counted],
        policy=RetryPolicy(max_attempts=3, initial_backoff_ms=100, backoff_factor=2),
    )
    assert (await conversation.prompt("go")).text == "done"
    first, *repeated = provider.requests

    assert notes == [1]
    assert len(repeated) == 3
    assert all(request.messages == conversation.messages[:3] for request in repeated)
    assert shapes(first.messages) == ["user"]


async def test_conv_29_a_toolkit_that_changes_between_rounds_counts_from_the_next_round(scripted):
    counted, notes = counting()

    class Swap(ToolClass):
        """Take away every tool but `add`."""

        async def execute(self) -> None:
            self.context.conversation.toolkit = [add]

    conversation, provider = scripted(
        calls(("swap", {}), ("count", {"n": 1})),
        calls(("count", {"n": 2}), ("add", {"a": 1, "b": 2})),
        "done",
        toolkit=[Swap, counted],
    )
    await conversation.prompt("go")

    assert [[tool.name for tool in request.tools] for request in provider.requests] == [
        ["swap", "count"],
        ["add"],
        ["add"],
    ]
    assert notes == [1]
    refused, added = outcomes(conversation.messages[4])
    assert refused["message"].startswith("invalid tool")
    assert added["output"] == 3


async def test_conv_29_calls_of_a_turn_run_against_the_toolkit_it_offered(scripted):
    counted, notes = counting()
    conversation, provider = scripted(calls(("count", {"n": 1})), "done", toolkit=[counted])

    for moment in ("prompt_send", "message_start", "message_complete"):
        conversation.once(moment, lambda event: setattr(conversation, "toolkit", [add]))

    await conversation.prompt("go")

    assert notes == [1]
    assert [[tool.name for tool in request.tools] for request in provider.requests] == [["count"], ["add"]]


async def test_conv_29_system_prompt_and_provider_are_read_when_a_round_starts(scripted):
    counted, _ = counting()
    conversation, provider = scripted(calls(("count", {"n": 1})), toolkit=[counted], system="one")
    other = type(provider)(["done"])

    def change(event):
        conversation.system, conversation.provider = "two", other

    conversation.once("message_complete", change)
    assert (await conversation.prompt("go")).text == "done"
    assert [request.system for request in (*provider.requests, *other.requests)] == [("one",), ("two",)]


async def test_cp_r2_what_is_sent_after_tools_never_ends_in_an_unanswered_call(managed):
    """A transformer that cuts history is followed by the orphans' one: pairs stay whole, and a user message is first."""

    class KeepLast(ContextTransformer):
        async def transform_prompt(self, messages, context):
            return messages[-2:]

    counted, _ = counting()
    manager, provider = managed(
        calls(("count", {"n": 1})), calls(("count", {"n": 2})), "done", toolkit=[counted], transformers=[KeepLast()]
    )
    assert (await manager.run("go")).text == "done"

    for request in provider.requests[1:]:
        called = [
            call.tool_request_id
            for message in request.messages
            if message.role == "assistant"
            for call in message.tool_calls
        ]
        answered = [block.tool_request_id for block in request.messages[-1].content]
        assert called == answered


async def test_mgr_8_a_prompt_drives_the_whole_loop_without_a_manager(scripted):
    conversation, provider = scripted(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])
    response = await conversation.prompt("1 + 2?")

    assert (response.text, response.stop_reason) == ("3", "end_turn")
    assert response.message is conversation.messages[-1]
    assert len(provider.requests) == 2
    assert not conversation.is_busy
    assert conversation.core.driver is None


async def test_mgr_8_a_prompt_goes_through_the_attached_manager_with_its_bounds_and_data(managed):
    door = Door()
    door.opened.set()
    manager, provider = managed(
        calls(("door", {})), "done", toolkit=[door.tool], max_rounds=1, context_data={"user": "ada"}
    )
    response = await manager.conversation.prompt("go")

    assert response.text == "done"
    assert provider.requests[-1].options.tool_choice == "none"
    assert door.contexts[0].user == "ada"


async def test_mgr_8_send_message_is_one_exchange_also_with_tools(managed):
    counted, notes = counting()
    manager, provider = managed(calls(("count", {"n": 1})), toolkit=[counted])
    log = Log()
    log.hear("M", manager)
    response = await manager.conversation.send_message("go")

    assert response.stop_reason == "tool_use"
    assert notes == []
    assert log.events == []
    assert len(provider.requests) == 1


async def test_mgr_8_without_tools_a_prompt_is_one_turn(scripted):
    conversation, provider = scripted(calls(("add", {"a": 1, "b": 2})))
    response = await conversation.prompt("go")
    assert response.stop_reason == "tool_use"
    assert len(provider.requests) == 1


async def test_tls_74_the_intent_is_recorded_before_a_call_and_its_result_before_the_next_request(scripted):
    seen = []

    class Look(ToolClass):
        """Look at the journal."""

        effect = "idempotent"

        async def execute(self) -> None:
            entries = list(self.context.conversation.journal.entries(kinds={"tool_intent", "tool_result"}))
            seen.append(([entry.kind for entry in entries], entries[-1].body, self.context.idempotency_key))

    def asked(request):
        seen.append([entry.kind for entry in conversation.journal.entries(kinds={"tool_intent", "tool_result"})])

        return "done"

    conversation, _ = scripted(calls(("look", {}, "t1")), asked, toolkit=[Look])
    await conversation.prompt("go")
    (kinds, intent, key), later = seen

    assert kinds == ["tool_intent"]
    assert (intent["tool_request_id"], intent["tool"], intent["effect"]) == ("t1", "look", "idempotent")
    assert key == intent["key"]
    assert later == ["tool_intent", "tool_result"]


@pytest.mark.parametrize(
    ("effect", "keyed"), [("pure", True), ("idempotent", True), ("compensable", False), ("irreversible", False)]
)
async def test_tls_74_only_tools_that_may_run_again_get_a_key(scripted, effect, keyed):
    door = Door(effect=effect)
    door.opened.set()
    conversation, _ = scripted(calls(("door", {}), ("door", {})), calls(("door", {})), "done", toolkit=[door.tool])
    await conversation.prompt("go")
    keys = [context.idempotency_key for context in door.contexts]

    assert len(set(keys)) == (3 if keyed else 1)
    assert all((key is not None) == keyed for key in keys)


async def test_a_definition_that_fails_costs_only_its_own_tool(scripted):
    class Broken(ToolClass):
        name = "broken"

        @classmethod
        def get_definition(cls):
            raise RuntimeError("no definition")

        async def execute(self) -> None:
            return None

    class Fine(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(name="fine", description="Be fine.", parameters=())

        async def execute(self) -> str:
            return "fine"

    conversation, provider = scripted(calls(("broken", {}), ("fine", {})), "done", toolkit=[Broken, Fine])
    await conversation.prompt("go")
    broken, fine = outcomes(provider.requests[1].messages[-1])

    assert [tool.name for tool in provider.requests[0].tools] == ["fine"]
    assert "no definition" in broken["message"]
    assert fine["output"] == "fine"


async def test_a_tool_that_asks_its_own_conversation_is_told_that_it_is_busy(scripted):
    @tool
    async def unused() -> None:
        """Do nothing."""

    class Ask(ToolClass):
        """Prompt the conversation it serves."""

        async def execute(self) -> str:
            return (await self.context.conversation.prompt("nested")).text

    conversation, provider = scripted(calls(("ask", {})), "done", toolkit=[Ask, unused])
    await conversation.prompt("go")
    (refused,) = outcomes(provider.requests[1].messages[-1])

    assert refused["error"] == "InvalidStateError"
    assert "busy with a tool loop" in refused["message"]
