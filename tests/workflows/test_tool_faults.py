"""What models and tools do wrong, through the whole loop: a result the model can act on, and on it goes."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from decimal import Decimal

import pytest
from tool_loops import add, counting, fail, outcomes, shapes

from simulacra.errors import OperationCancelledError
from simulacra.schema import ToolDefinition
from simulacra.serialization import dump_message, load_message
from simulacra.testing import calls
from simulacra.tools import ToolClass, tool

pytestmark = pytest.mark.anyio


async def given(conversation, provider):
    """What the model is told of its calls, after a loop that went on to an answer."""
    assert (await conversation.prompt("go")).text == "done"
    assert len(provider.requests) == 2

    return outcomes(provider.requests[1].messages[-1])


async def test_tl_01_one_failing_call_costs_no_other_its_result(scripted):
    @tool
    async def say(text: str) -> str:
        """Say it."""
        return text

    conversation, provider = scripted(
        calls(("say", {"text": "1"}), ("fail", {"text": "x"}), ("say", {"text": "3"})), "done", toolkit=[say, fail]
    )
    assert await given(conversation, provider) == [
        {"result": True, "output": "1"},
        {"result": False, "message": "x", "error": "ValueError"},
        {"result": True, "output": "3"},
    ]


async def test_tl_r1_whatever_a_tool_raises_is_its_own_result(scripted):
    class Worst(BaseException):
        pass

    raised = [ValueError("v"), OperationCancelledError(), Worst("w"), ExceptionGroup("two", [ValueError("a")])]

    @tool
    async def throw(n: int) -> None:
        """Raise the n-th."""
        raise raised[n]

    conversation, provider = scripted(
        calls(*(("throw", {"n": n}) for n in range(4)), ("add", {"a": 1, "b": 2})), "done", toolkit=[throw, add]
    )
    *failures, fine = await given(conversation, provider)

    assert [failure["result"] for failure in failures] == [False] * 4
    assert [failure["error"] for failure in failures[:3]] == ["ValueError", "OperationCancelledError", "Worst"]
    assert fine == {"result": True, "output": 3}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_tl_r1_a_cancellation_that_is_not_the_turns_is_a_result_too(scripted):
    @tool
    async def confused() -> None:
        """Raise asyncio's cancellation."""
        raise asyncio.CancelledError

    conversation, provider = scripted(
        calls(("confused", {}), ("add", {"a": 1, "b": 2})), "done", toolkit=[confused, add]
    )
    failure, fine = await given(conversation, provider)
    assert (failure["result"], failure["error"]) == (False, "CancelledError")
    assert fine["result"]


async def test_tl_03_tool_7_a_made_up_name_is_answered_with_the_names_that_exist(scripted):
    @tool
    async def get_date() -> str:
        """Tell the date."""
        return "today"

    conversation, provider = scripted(calls(("get_dat", {}), ("get_date", {})), "done", toolkit=[get_date])
    unknown, known = await given(conversation, provider)

    assert not unknown["result"]
    assert unknown["message"].startswith("invalid tool")
    assert "get_date" in unknown["message"]
    assert known["output"] == "today"


async def test_tl_03_made_up_names_are_bounded_by_the_round_limit(managed):
    manager, provider = managed(*[calls(("nope", {}))] * 3, "done", toolkit=[add], max_rounds=3)
    assert (await manager.run("go")).reason == "limit"
    assert len(provider.requests) == 4


@pytest.mark.parametrize("text", ["null", "[]", "3", '"x"', "true"])
async def test_tl_r2_arguments_that_are_no_object_never_reach_the_tool(scripted, text):
    counted, notes = counting()
    conversation, provider = scripted(calls(("count", text)), "done", toolkit=[counted])
    (failure,) = await given(conversation, provider)

    assert notes == []
    assert not failure["result"]
    assert "object" in failure["message"]


async def test_tl_r2_an_object_inside_one_json_string_is_unwrapped(scripted):
    counted, notes = counting()
    conversation, provider = scripted(calls(("count", json.dumps('{"n": 4}'))), "done", toolkit=[counted])
    assert (await given(conversation, provider))[0]["result"]
    assert notes == [4]


async def test_tl_r2_wrong_values_are_named_one_by_one(scripted):
    conversation, provider = scripted(calls(("add", {"a": "one", "c": 3})), "done", toolkit=[add])
    (failure,) = await given(conversation, provider)
    assert all(name in failure["message"] for name in ("a", "b", "c"))


async def test_tl_r3_a_call_that_was_not_complete_is_never_run_whatever_its_defaults_are(scripted):
    counted, notes = counting()
    conversation, provider = scripted(calls(("count", '{"n": 1')), "done", toolkit=[counted])
    (failure,) = await given(conversation, provider)

    assert notes == []
    assert "cut off" in failure["message"]


async def test_tl_07_broken_arguments_are_not_turned_into_none(scripted):
    ran = []

    @tool
    async def remove(path: str = "everything") -> None:
        """Remove a file."""
        ran.append(path)

    conversation, provider = scripted(calls(("remove", '{"path": "a.txt", "con')), "done", toolkit=[remove])
    (failure,) = await given(conversation, provider)
    call = conversation.messages[1].tool_calls[0]

    assert ran == []
    assert call.error
    assert call.params == {}
    assert "JSON" in failure["message"]
    assert failure["expected_schema"]["properties"].keys() == {"path"}


async def test_tl_09_cut_arguments_are_answered_and_never_poison_a_later_request(scripted):
    counted, notes = counting()
    conversation, provider = scripted(calls(("count", '{"q":"abc')), "done", "fine", toolkit=[counted])
    await given(conversation, provider)
    await conversation.prompt("and now?")

    assert notes == []
    sent = provider.requests[-1].messages
    assert shapes(sent) == ["user", "calls", "results", "assistant", "user"]
    assert sent[1].tool_calls[0].params == {}
    assert sent[2].content[0].tool_request_id == sent[1].tool_calls[0].tool_request_id
    json.loads(json.dumps([dump_message(message) for message in sent], allow_nan=False))


async def test_tl_12_values_json_cannot_hold_are_encoded(scripted):
    @tool
    async def everything() -> dict:
        """Give all kinds."""
        return {"t": dt.datetime(2026, 1, 2), "d": Decimal("1.10"), "b": b"\xff", "s": {1}}  # noqa: DTZ001 -- as reported

    conversation, provider = scripted(calls(("everything", {})), "done", toolkit=[everything])
    (encoded,) = await given(conversation, provider)

    assert encoded == {
        "result": True,
        "t": "2026-01-02T00:00:00",
        "d": "1.10",
        "b": {"base64": "/w==", "bytes": 1},
        "s": [1],
    }
    stored = [dump_message(message) for message in conversation.messages]
    assert [load_message(json.loads(json.dumps(message, allow_nan=False))) for message in stored] == list(
        conversation.messages
    )


async def test_tl_r5_what_json_cannot_write_never_gets_into_a_request(scripted):
    @tool
    async def numbers() -> dict:
        """Give numbers and halves of characters."""
        return {"nan": float("nan"), "inf": float("-inf"), "half": "\ud83d", "big": 10**30}

    loop: list = []
    loop.append(loop)

    @tool
    async def endless() -> list:
        """Give a list that holds itself."""
        return loop

    conversation, provider = scripted(calls(("numbers", {}), ("endless", {})), "done", toolkit=[numbers, endless])
    encoded, failure = await given(conversation, provider)

    assert (encoded["nan"], encoded["inf"], encoded["half"], encoded["big"]) == (None, None, "\ufffd", 10**30)
    assert not failure["result"]

    for message in provider.requests[1].messages:
        json.dumps(dump_message(message), allow_nan=False).encode()


async def test_cc_07_a_tool_that_changes_its_arguments_changes_no_history(scripted):
    class Greedy(ToolClass):
        @classmethod
        def get_definition(cls):
            return ToolDefinition(name="greedy", description="Add to x.", parameters={"type": "object"})

        async def execute(self, params) -> int:
            params["x"].append(1)

            return len(params["x"])

    conversation, provider = scripted(calls(("greedy", {"x": [0]})), "done", toolkit=[Greedy])
    assert (await given(conversation, provider))[0]["output"] == 2
    assert conversation.messages[1].tool_calls[0].params == {"x": [0]}
    assert provider.requests[1].messages[1].tool_calls[0].params == {"x": [0]}


async def test_w_tool_2_scenario_8_broken_tools_give_error_results_and_the_workflow_goes_on(managed, jumping):
    class Unbuildable(ToolClass):
        """Fail at once."""

        def __init__(self, context):
            raise RuntimeError("no instance")

        async def execute(self) -> None:
            return None

    @tool(timeout=0.5)
    async def slow() -> None:
        """Take long."""
        await jumping.sleep(60)

    @tool
    async def large() -> str:
        """Say much."""
        return "a" * 5000

    @tool
    async def odd() -> object:
        """Give an object."""
        return object()

    manager, provider = managed(
        calls(("unbuildable", {}), ("slow", {}), ("large", {}), ("odd", {})),
        "done",
        toolkit=[Unbuildable, slow, large, odd],
        max_result_bytes=1000,
    )
    result = await manager.run("go")
    unbuildable, timed_out, long, object_ = outcomes(provider.requests[1].messages[-1])

    assert result.reason == "complete"
    assert unbuildable == {"result": False, "message": "no instance", "error": "RuntimeError"}
    assert timed_out["message"] == "Tool slow timed out after 500ms"
    assert len(json.dumps(long)) <= 1000
    assert not object_["result"]
