from __future__ import annotations

import contextvars
import logging
import threading

import anyio
import anyio.lowlevel
import pytest
from anyio import from_thread
from running_calls import PATIENCE, Gate, Running, until
from tool_calls import call, result

from simulacra.clock import clock
from simulacra.tools import ToolContext, ToolRunner, tool

pytestmark = pytest.mark.anyio


async def test_tool_11_a_tool_that_takes_too_long_is_answered(fake_clock):
    @tool(effect="pure")
    async def slow():
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, slow)
        await fake_clock.advance(29.9)
        assert running.result is None
        await fake_clock.advance(0.1)

    assert running.result == {"result": False, "message": "Tool slow timed out after 30000ms", "error": "timeout"}


@pytest.mark.parametrize(("timeout", "text"), [(0.25, "250ms"), (1, "1000ms"), (1.5, "1500ms"), (90.0, "90000ms")])
async def test_tls_31_the_text_names_whole_milliseconds(fake_clock, timeout, text):
    @tool(name="web-search", timeout=timeout)
    async def slow():
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, slow)
        await fake_clock.advance(timeout)

    assert running.result["message"] == f"Tool web-search timed out after {text}"
    assert running.result["outcome"] == "unknown"


@pytest.mark.parametrize("timeout", [0, None, 0.0])
async def test_tls_30_zero_and_none_switch_the_limit_off(fake_clock, timeout):
    @tool(timeout=timeout)
    async def slow():
        await clock().sleep(1_000_000)
        return "at last"

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, slow)
        await fake_clock.advance(1_000_000)

    assert running.result == {"result": True, "output": "at last"}
    assert fake_clock.pending == 0


async def test_tls_30_a_tool_that_ends_in_time_leaves_no_timer(fake_clock):
    assert (await result(tool(lambda: 1)))["output"] == 1
    assert fake_clock.pending == 0


async def test_tls_30_waiting_for_a_free_thread_takes_no_time_of_the_tool(fake_clock):
    gates = [Gate(), Gate()]
    order = iter(gates)

    @tool(timeout=10)
    def work(context: ToolContext):
        return next(order)(context)

    runner = ToolRunner([work], thread_limit=1)
    results = []

    async def run():
        results.append((await runner.run(call("work"), ToolContext())).result.model_dump())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await until(gates[0].started)
        tasks.start_soon(run)
        await fake_clock.advance(9)
        gates[0].go.set()
        await until(gates[1].started)
        await fake_clock.advance(9)
        gates[1].go.set()

    assert results == [{"result": True, "output": "late"}] * 2


async def test_tool_11_a_sync_tool_runs_in_a_thread_and_the_loop_goes_on():
    gate = Gate()

    @tool
    def work(context: ToolContext):
        return [threading.get_ident(), gate(context)]

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, work)
        await until(gate.started)
        gate.go.set()

    thread, output = running.result["output"]
    assert output == "late"
    assert thread != threading.get_ident()


async def test_cc_03_sync_tools_run_side_by_side_with_the_callers_context_variables():
    variable = contextvars.ContextVar("variable")
    barrier = threading.Barrier(2, timeout=PATIENCE)

    @tool
    def meet():
        barrier.wait()
        return variable.get()

    runner = ToolRunner([meet])
    results, beats = [], []
    variable.set("seen")

    async def run():
        results.append((await runner.run(call("meet"), ToolContext())).result.model_dump())

    async def heartbeat():
        while len(results) < 2:
            beats.append(1)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat)
        tasks.start_soon(run)
        tasks.start_soon(run)

    assert results == [{"result": True, "output": "seen"}] * 2
    assert len(beats) > 1


async def test_a_sync_tool_may_use_the_event_loop_from_its_thread():
    async def on_loop():
        await anyio.lowlevel.checkpoint()
        return "from the loop"

    assert (await result(tool(lambda: from_thread.run(on_loop))))["output"] == "from the loop"


async def test_tls_26_a_thread_out_of_time_is_answered_at_once_and_its_late_result_is_told(fake_clock, caplog):
    caplog.set_level(logging.INFO, "simulacra.tools")
    gate = Gate()

    @tool(timeout=5)
    def stuck(context: ToolContext):
        return gate(context)

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, stuck)
        await until(gate.started)
        await fake_clock.advance(5)
        await running.done.wait()
        assert running.result["message"] == "Tool stuck timed out after 5000ms"
        assert running.late == []
        gate.go.set()
        await until(gate.ended)
        await until(running.late_told)

    ((made, late),) = running.late
    assert made.tool == "stuck"
    assert late.result.model_dump() == {"result": True, "output": "late"}
    assert gate.saw_cancel is True
    assert "tool=<stuck>, tool_request_id=<t1> | ended after it was answered" in caplog.text


async def test_tls_26_a_late_failure_is_told_too(fake_clock):
    gate = Gate()

    @tool(timeout=5)
    def stuck(context: ToolContext):
        gate(context)
        raise ValueError("too late")

    async with anyio.create_task_group() as tasks:
        running = Running(tasks, stuck)
        await until(gate.started)
        await fake_clock.advance(5)
        gate.go.set()
        await until(running.late_told)

    assert running.late[0][1].result.model_dump() == {"result": False, "message": "too late", "error": "ValueError"}


async def test_tls_26_threads_that_cannot_be_stopped_take_no_places(fake_clock):
    gates = [Gate(), Gate()]
    order = iter(gates)

    @tool(timeout=5)
    def stuck(context: ToolContext):
        return next(order)(context)

    runner = ToolRunner([stuck], thread_limit=1)
    results = []

    async def run():
        results.append((await runner.run(call("stuck"), ToolContext())).result.model_dump())

    async with anyio.create_task_group() as tasks:
        for gate in gates:
            tasks.start_soon(run)
            await until(gate.started)
            await fake_clock.advance(5)

    assert [told["error"] for told in results] == ["timeout", "timeout"]

    for gate in gates:
        gate.go.set()
