"""Batches: which calls run beside which, how many at once, and what they cost."""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar

import anyio
import anyio.from_thread
import pytest
from tool_loops import Door, counting, outcomes, settle

from simulacra.schema import ToolDefinition
from simulacra.testing import calls
from simulacra.tools import ToolClass, tool

pytestmark = pytest.mark.anyio

USER = ContextVar("USER", default="nobody")


class Diary:
    """Tools that note when they start and end; they end in the order in which they are let go."""

    def __init__(self):
        self.notes = []
        self.alone = 0
        self.doors = {}

    def tools(self):
        return [self._tool("shared", parallelizable=True), self._tool("single", parallelizable=False)]

    def _tool(self, name, *, parallelizable):
        async def run(n: int) -> int:
            """Run."""
            self.notes.append(f"start {n}")
            await self.doors.setdefault(n, anyio.Event()).wait()
            self.notes.append(f"end {n}")

            return n

        return tool(run, name=name, parallelizable=parallelizable)

    async def let_go(self, *numbers):
        for n in numbers:
            self.doors.setdefault(n, anyio.Event()).set()
            await settle()


async def test_wf_2_parallelizable_calls_gather_and_another_one_runs_alone(scripted):
    """`p1 p2 S3 p4 ? S6` runs as `{p1, p2} {S3} {p4, ?} {S6}`; results keep call order (scenario 6)."""
    diary = Diary()
    asked = calls(
        ("shared", {"n": 1}),
        ("shared", {"n": 2}),
        ("single", {"n": 3}),
        ("shared", {"n": 4}),
        ("unknown", {}),
        ("single", {"n": 6}),
    )
    conversation, provider = scripted(asked, "done", toolkit=diary.tools())

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.prompt, "go")
        await settle()
        assert diary.notes == ["start 1", "start 2"]
        await diary.let_go(2)
        assert diary.notes[2:] == ["end 2"]
        await diary.let_go(1)
        assert diary.notes[3:] == ["end 1", "start 3"]
        await diary.let_go(3)
        assert diary.notes[5:] == ["end 3", "start 4"]
        await diary.let_go(4)
        assert diary.notes[7:] == ["end 4", "start 6"]
        await diary.let_go(6)

    given = outcomes(provider.requests[1].messages[-1])
    assert [outcome.get("output", "invalid") for outcome in given] == [1, 2, 3, 4, "invalid", 6]


async def test_wf_2_a_lone_non_parallelizable_call_starts_at_once(scripted):
    diary = Diary()
    conversation, _ = scripted(calls(("single", {"n": 1}), ("single", {"n": 2})), "done", toolkit=diary.tools())

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.prompt, "go")
        await settle()
        assert diary.notes == ["start 1"]
        await diary.let_go(1, 2)

    assert diary.notes == ["start 1", "end 1", "start 2", "end 2"]


async def test_wf_3_when_the_workflow_stops_between_batches_the_later_ones_do_not_run(scripted):
    counted, notes = counting()
    seen = []

    class Stopper(ToolClass):
        """Cancel the conversation it is called in."""

        parallelizable = False

        async def execute(self) -> str:
            seen.append("ran")
            self.context.conversation.cancel_response()

            return "stopped"

    conversation, provider = scripted(
        calls(("stopper", {}), ("count", {"n": 1}), ("count", {"n": 2})), toolkit=[Stopper, counted]
    )
    response = await conversation.prompt("go")

    assert response.cancelled
    assert seen == ["ran"]
    assert notes == []
    first, *later = outcomes(conversation.messages[-1])
    assert first == {"result": True, "output": "stopped"}
    assert later == [{"result": False, "message": "cancelled before execution", "error": "cancelled"}] * 2
    assert len(provider.requests) == 1


@pytest.mark.parametrize("limit", [1, 16, 64])
async def test_w_wf_10_a_batch_runs_only_so_many_calls_at_once(managed, limit):
    running, most = 0, 0

    @tool
    async def busy(n: int) -> int:
        """Be busy."""
        nonlocal running, most
        running += 1
        most = max(most, running)

        for _ in range(3):
            await anyio.lowlevel.checkpoint()

        running -= 1

        return n

    manager, provider = managed(
        calls(*(("busy", {"n": n}) for n in range(100))), "done", toolkit=[busy], max_concurrency=limit
    )
    result = await manager.run("go")

    assert result.reason == "complete"
    assert most == limit
    assert [outcome["output"] for outcome in outcomes(provider.requests[1].messages[-1])] == list(range(100))


async def test_w_wf_10_tools_are_found_by_name_without_a_search(scripted):
    asked = []

    class Watched(ToolClass):
        """Do nothing."""

        async def execute(self) -> None:
            return None

    class Other(ToolClass):
        @classmethod
        def get_definition(cls):
            asked.append(cls)

            return ToolDefinition(name="other", description="Do nothing.", parameters=())

        def execute(self, params) -> None:
            return None

    conversation, _ = scripted(*[calls(*[("watched", {})] * 20)] * 5, "done", toolkit=[Watched, Other])
    asked.clear()
    await conversation.prompt("go")

    assert len(asked) <= 2  # once per toolkit and loop, not once per call or round


async def test_max_concurrency_is_also_the_number_of_threads(managed):
    barrier = threading.Barrier(4)

    @tool
    def meet(n: int) -> int:
        """Meet three others."""
        barrier.wait(30)

        return n

    manager, provider = managed(
        calls(*(("meet", {"n": n}) for n in range(8))), "done", toolkit=[meet], max_concurrency=4
    )
    await manager.run("go")
    assert [outcome["output"] for outcome in outcomes(provider.requests[1].messages[-1])] == list(range(8))


async def test_cc_03_sync_tools_run_in_threads_beside_each_other_and_see_the_callers_context(scripted):
    barrier = threading.Barrier(2)
    beats = 0
    met = threading.Event()

    @tool
    def meet() -> str:
        """Meet the other one."""
        barrier.wait(30)
        met.wait(30)

        return USER.get()

    async def heartbeat():
        nonlocal beats

        while beats < 50:
            await anyio.lowlevel.checkpoint()
            beats += 1

        met.set()

    conversation, provider = scripted(calls(("meet", {}), ("meet", {})), "done", toolkit=[meet])
    USER.set("ada")

    async with anyio.create_task_group() as group:
        group.start_soon(heartbeat)
        await conversation.prompt("go")

    assert beats == 50  # the loop went on while both threads waited
    assert [outcome["output"] for outcome in outcomes(provider.requests[1].messages[-1])] == ["ada", "ada"]


async def test_tl_r4_calls_are_told_apart_by_their_place_not_by_their_ids(scripted):
    counted, notes = counting()
    asked = calls(("count", {"n": 1}, ""), ("count", {"n": 2}, ""), ("count", {"n": 3}, "x"), ("count", {"n": 4}, "x"))
    again = calls(("count", {"n": 5}, "x"))
    conversation, provider = scripted(asked, again, "done", toolkit=[counted])
    await conversation.prompt("go")

    assert sorted(notes) == [1, 2, 3, 4, 5]
    sent = provider.requests[2].messages
    assert [outcome["output"] for outcome in outcomes(sent[2])] == [1, 2, 3, 4]
    assert [outcome["output"] for outcome in outcomes(sent[4])] == [5]


async def test_w_wf_6_no_call_runs_twice_and_each_is_recorded_before_and_after(scripted):
    counted, notes = counting(effect="pure")
    conversation, _ = scripted(
        calls(("count", {"n": 1}), ("count", {"n": 2})), calls(("count", {"n": 3})), "done", toolkit=[counted]
    )
    await conversation.prompt("go")
    entries = list(conversation.journal.entries(kinds={"tool_intent", "tool_result"}))

    assert sorted(notes) == [1, 2, 3]
    assert sorted(entry.kind for entry in entries) == ["tool_intent"] * 3 + ["tool_result"] * 3
    keys = [entry.body["key"] for entry in entries if entry.kind == "tool_intent"]
    assert len(set(keys)) == 3
    assert all(key.startswith(conversation.id) for key in keys)


async def test_w_wf_9_tools_start_when_the_reply_is_over(scripted):
    counted, notes = counting()
    conversation, _ = scripted(calls(("count", {"n": 1}), text="Let me count."), "done", toolkit=[counted])
    ran = []
    conversation.on("message_complete", lambda event: ran.append(list(notes)))
    await conversation.prompt("go")

    assert ran == [[], [1]]


async def test_the_work_of_a_batch_grows_linearly_with_its_calls(managed):
    @tool
    async def same(n: int) -> int:
        """Give it back."""
        return n

    async def function_calls(size):
        manager, provider = managed(calls(*(("same", {"n": n}) for n in range(size))), "done", toolkit=[same])
        count = 0

        def hear(frame, event, arg):
            nonlocal count
            count += event == "call"

        sys.setprofile(hear)

        try:
            await manager.run("go")
            await anyio.wait_all_tasks_blocked()  # timers end in tasks of their own
        finally:
            sys.setprofile(None)

        assert len(outcomes(provider.requests[1].messages[-1])) == size
        entries = list(manager.conversation.journal.entries(kinds={"tool_intent", "tool_result"}))
        assert len(entries) == 2 * size

        return count

    await function_calls(1)  # what is made once
    few, many = await function_calls(50), await function_calls(400)
    assert many < 8.4 * few


async def test_a_door_shut_by_one_call_does_not_hold_up_its_batch(scripted):
    door = Door()
    counted, notes = counting()
    conversation, _ = scripted(calls(("door", {}), ("count", {"n": 1})), "done", toolkit=[door.tool, counted])

    async with anyio.create_task_group() as group:
        group.start_soon(conversation.prompt, "go")
        await door.entered.wait()

        while not notes:
            await anyio.lowlevel.checkpoint()

        door.opened.set()

    assert notes == [1]
