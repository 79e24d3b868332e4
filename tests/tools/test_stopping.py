from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest
from anyio import CancelScope
from running_calls import PATIENCE, Gate, Running, until
from tool_calls import answer, call, result

from simulacra.cancellation import CancellationTokenSource, sleep
from simulacra.clock import clock
from simulacra.errors import OperationCancelledError
from simulacra.tools import ToolContext, ToolRunner, tool
from simulacra.tools.execution import STOP_SECONDS

pytestmark = pytest.mark.anyio


async def test_tls_5_cancel_reaches_a_running_tool(fake_clock):
    cleaned = []

    @tool(effect="pure")
    async def slow():
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append(True)

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, slow)
        await fake_clock.advance(1)
        running.source.cancel()

    assert running.result == {"result": False, "message": "cancelled while running", "error": "cancelled"}
    assert cleaned == [True]


async def test_tls_5_what_a_cancelled_tool_did_is_unknown_unless_it_is_pure(fake_clock):
    @tool
    async def slow():
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, slow)
        await fake_clock.advance(1)
        running.source.cancel()

    assert running.result["message"].startswith("cancelled while running; check whether it took effect")
    assert running.result["outcome"] == "unknown"


async def test_tls_5_a_thread_that_goes_on_after_a_cancel_is_told_as_still_running(fake_clock):
    gate = Gate()

    @tool
    def stuck(context: ToolContext):
        return gate(context)

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, stuck)
        await until(gate.started)
        running.source.cancel()

        with gate.opened_at_last():
            await fake_clock.advance(STOP_SECONDS - 0.01)
            assert running.result is None
            await fake_clock.advance(0.01)
            await running.done.wait()

        await until(running.late_told)

    assert running.result["error"] == "still_running"
    assert gate.saw_cancel is True
    assert running.late[0][1].result.model_dump()["output"] == "late"


async def test_tls_5_a_thread_that_ends_soon_after_a_cancel_keeps_its_value(fake_clock):
    gate = Gate()

    @tool
    def polite(context: ToolContext):
        return gate(context)

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, polite)
        await until(gate.started)
        running.source.cancel()
        gate.go.set()
        await running.done.wait()

    assert running.result == {"result": True, "output": "late"}
    assert gate.saw_cancel is True
    assert running.late == []
    assert fake_clock.pending == 0


async def test_tls_5_a_tool_that_ends_although_it_was_cancelled_keeps_its_value():
    source = CancellationTokenSource()

    @tool
    async def quick():
        source.cancel()
        return "done all the same"

    done = await answer(quick, context=ToolContext(cancellation=source.token))
    assert done.result.model_dump() == {"result": True, "output": "done all the same"}


async def test_tls_5_a_tool_that_stops_by_its_token_is_cancelled(fake_clock):
    @tool(effect="pure")
    async def polite(context: ToolContext):
        await sleep(60, context.cancellation)

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, polite)
        await fake_clock.advance(1)
        running.source.cancel()

    assert running.result == {"result": False, "message": "cancelled while running", "error": "cancelled"}


async def test_a_call_whose_turn_is_cancelled_already_does_not_run():
    source = CancellationTokenSource()
    source.cancel()
    ran = []
    done = await answer(tool(lambda: ran.append(1)), context=ToolContext(cancellation=source.token))
    assert done.result.model_dump() == {"result": False, "message": "cancelled before execution", "error": "cancelled"}
    assert ran == []


async def test_a_call_that_waits_for_a_thread_when_cancelled_never_runs():
    gate = Gate()
    ran = []

    @tool
    def first(context: ToolContext):
        ran.append(1)
        return gate(context)

    runner = ToolRunner([first], thread_limit=1)
    source = CancellationTokenSource()
    results = []
    answered = anyio.Event()

    async def run(context):
        results.append((await runner.run(call("first"), context)).result.model_dump())
        answered.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, ToolContext())
        await until(gate.started)
        tasks.start_soon(run, ToolContext(cancellation=source.token))
        await anyio.wait_all_tasks_blocked()
        source.cancel()
        await answered.wait()
        gate.go.set()

    assert [told.get("error") for told in results] == ["cancelled", None]
    assert ran == [1]


async def test_tls_32_the_first_limit_that_fires_answers(fake_clock):
    @tool(timeout=5)
    async def slow():
        try:
            await anyio.sleep_forever()
        finally:
            with CancelScope(shield=True):
                await clock().sleep(10)

    async with anyio.create_task_group() as tasks:
        timed_out, cancelled = Running(tasks, slow), Running(tasks, slow)
        await fake_clock.advance(4)
        cancelled.source.cancel()
        await fake_clock.advance(2)
        timed_out.source.cancel()
        await fake_clock.advance(20)

    assert timed_out.result["error"] == "timeout"
    assert cancelled.result["error"] == "cancelled"


async def test_tls_32_a_value_that_comes_after_the_time_is_up_does_not_count(fake_clock):
    @tool(timeout=5)
    async def stubborn():
        try:
            await anyio.sleep_forever()
        except BaseException:
            return "ignored the time"

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, stubborn)
        await fake_clock.advance(5)

    assert running.result["error"] == "timeout"


async def test_tl_r1_a_cancellation_of_the_tools_own_is_its_error_result():
    @tool
    async def own():
        with CancelScope() as scope:
            scope.cancel()
            await anyio.sleep_forever()

        raise OperationCancelledError

    assert await result(own) == {
        "result": False,
        "message": "The operation was cancelled",
        "error": "OperationCancelledError",
    }


async def test_tl_r1_a_cancelled_error_that_a_tool_raises_is_its_error_result():
    @tool
    async def raises():
        raise asyncio.CancelledError("mine")

    @tool
    def raises_in_thread():
        raise asyncio.CancelledError

    assert await result(raises) == {"result": False, "message": "mine", "error": "CancelledError"}
    assert await result(raises_in_thread) == {"result": False, "message": "CancelledError", "error": "CancelledError"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio knows scopes only
async def test_tl_r1_a_child_task_that_was_cancelled_fails_its_tool_only(anyio_backend):
    @tool
    async def f():
        child = asyncio.ensure_future(asyncio.sleep(PATIENCE))
        asyncio.get_running_loop().call_soon(child.cancel)
        await child

    assert (await result(f))["error"] == "CancelledError"


async def test_tl_r1_a_cancel_of_the_awaiting_task_is_raised(fake_clock):
    @tool
    async def slow():
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, slow)
        await fake_clock.advance(1)
        running.scope.cancel()

    assert running.scope.cancelled_caught
    assert running.result is None
    assert fake_clock.pending == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio knows scopes only
async def test_tl_r1_a_native_cancel_of_the_awaiting_task_is_raised(anyio_backend):
    started = asyncio.Event()

    @tool
    async def slow():
        started.set()
        await asyncio.sleep(PATIENCE)

    task = asyncio.ensure_future(result(slow))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_tl_r1_a_cancel_of_the_awaiting_task_leaves_a_thread_behind_that_can_see_it():
    gate = Gate()

    @tool
    def stuck(context: ToolContext):
        return gate(context)

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, stuck)
        await until(gate.started)
        running.scope.cancel()
        await running.done.wait()
        gate.go.set()
        await until(running.late_told)

    assert running.result is None
    assert gate.saw_cancel is True


async def test_a_nested_task_group_that_is_cancelled_with_the_turn_is_no_error_of_the_tool(fake_clock):
    @tool(effect="pure")
    async def grouped():
        async with anyio.create_task_group() as inner:
            inner.start_soon(anyio.sleep_forever)
            inner.start_soon(anyio.sleep_forever)

    async with anyio.create_task_group() as tasks:
        by_token, by_scope = Running(tasks, grouped), Running(tasks, grouped)
        await fake_clock.advance(1)
        by_token.source.cancel()
        by_scope.scope.cancel()

    assert by_token.result == {"result": False, "message": "cancelled while running", "error": "cancelled"}
    assert by_scope.scope.cancelled_caught
