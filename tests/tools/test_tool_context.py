from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TypedDict

import anyio
import pytest
from tool_calls import answer, result

from simulacra.cancellation import CancellationTokenSource
from simulacra.tools import ToolClass, ToolContext, ToolProgress, tool

pytestmark = pytest.mark.anyio


class Deps(TypedDict):
    user: str


@dataclass
class Services:
    user: str
    calls: int = 0


def test_tool_4_everything_has_a_default():
    context = ToolContext()
    assert (context.conversation, context.workflow, context.tool_request_id) == (None, None, "")
    assert (context.idempotency_key, context.receipt, context.data) == (None, None, {})
    assert context.cancellation.is_cancellation_requested is False


def test_tool_4_keys_of_the_data_read_as_attributes():
    context = ToolContext[Deps](context_data={"user": "ann"})
    assert (context.user, context.data["user"]) == ("ann", "ann")

    with pytest.raises(AttributeError, match="no 'group', and neither has its data.*context_data"):
        context.group

    assert not hasattr(context, "group")


def test_tool_4_names_of_the_engine_win():
    data = {"conversation": "mine", "data": "mine", "report_progress": "mine", "receipt": "mine"}
    context = ToolContext(conversation=None, context_data=data)
    assert context.conversation is None
    assert context.data is data
    assert callable(context.report_progress)
    assert context.receipt is None


def test_tool_4_the_data_may_be_any_object():
    services = Services(user="ann")
    context = ToolContext(context_data=services)
    assert context.user == "ann"
    assert context.data is services


async def test_tool_4_the_data_is_shared_and_the_context_is_per_call():
    @tool
    def count(context: ToolContext):
        context.data["calls"] = context.data.get("calls", 0) + 1
        context.receipt = context.data["calls"]
        return context.calls

    shared: dict[str, int] = {}
    contexts = [ToolContext(context_data=shared) for _ in range(3)]
    outputs = [(await result(count, context=context))["output"] for context in contexts]
    assert outputs == [1, 2, 3]
    assert [context.receipt for context in contexts] == [1, 2, 3]
    assert shared == {"calls": 3}


def test_tool_4_a_misspelt_attribute_is_not_lost_in_silence():
    context = ToolContext(context_data={"user": "ann"})

    with pytest.raises(AttributeError):
        context.user = "bob"


async def test_tool_4_a_class_reads_everything_from_its_context():
    class Reader(ToolClass):
        async def execute(self):
            self.context.receipt = "written"
            return [self.context.tool_request_id, self.context.idempotency_key, self.context.user]

    context = ToolContext(tool_request_id="c1", idempotency_key="k1", context_data={"user": "ann"})
    assert (await result(Reader, context=context))["output"] == ["c1", "k1", "ann"]
    assert context.receipt == "written"


def test_a_context_can_be_copied():
    context = ToolContext(tool_request_id="c1", context_data={"user": "ann"})
    assert copy.copy(context).user == "ann"


async def test_w_tool_4_progress_is_told_from_the_task_and_from_a_thread():
    told = []

    @tool
    async def in_task(context: ToolContext):
        context.report_progress(0.5, total=1.0, message="half")

    @tool
    def in_thread(context: ToolContext):
        context.report_progress(2, message="on")

    await result(in_task, context=ToolContext(tool_request_id="a", on_progress=told.append))
    await result(in_thread, context=ToolContext(tool_request_id="b", on_progress=told.append))
    assert told == [  # by the time its result is there
        ToolProgress(tool_request_id="a", progress=0.5, total=1.0, message="half"),
        ToolProgress(tool_request_id="b", progress=2, message="on"),
    ]


async def test_w_tool_4_progress_runs_on_the_event_loop_even_when_told_from_a_thread():
    heard = anyio.Event()

    @tool
    def in_thread(context: ToolContext):
        context.report_progress(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heard.wait)
        await result(in_thread, context=ToolContext(on_progress=lambda progress: heard.set()))


async def test_w_tool_4_a_progress_listener_that_raises_does_not_harm_the_tool(caplog):
    def explode(progress):
        raise ValueError("listener")

    @tool
    async def f(context: ToolContext):
        context.report_progress(1)
        return "done"

    assert (await result(f, context=ToolContext(on_progress=explode)))["output"] == "done"
    assert "progress was not delivered" in caplog.text


async def test_w_tool_4_a_tool_sees_its_cancellation_token():
    source = CancellationTokenSource()

    @tool
    async def f(context: ToolContext):
        source.cancel()
        return context.cancellation.is_cancellation_requested

    done = await answer(f, context=ToolContext(cancellation=source.token))
    assert done.result.model_dump() == {"result": True, "output": True}
