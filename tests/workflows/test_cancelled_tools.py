"""Cancel while tools run: it reaches them, each call gets exactly one result, and the next prompt works."""

from __future__ import annotations

import asyncio
import threading

import anyio
import anyio.from_thread
import pytest
from tool_loops import Asked, Door, Lock, Log, add, counting, outcomes, settle, shapes, until

from simulacra.errors import InvalidStateError
from simulacra.testing import calls, stall
from simulacra.tools import ToolClass, ToolContext, tool
from simulacra.workflows.events import WorkflowBegin

pytestmark = pytest.mark.anyio

UNKNOWN = {"result": False, "outcome": "unknown"}


async def test_cx_01_wf_12_cancel_reaches_running_tools_and_finished_ones_keep_their_values(
    scripted, fake_clock, group
):
    door = Door()
    conversation, provider = scripted(
        calls(("add", {"a": 1, "b": 2}, "t1"), ("door", {}, "t2")), "new answer", toolkit=[add, door.tool]
    )
    sent = []
    off = conversation.on("prompt_send", lambda event: sent.extend(shapes([event.message])))
    asked = Asked(group, conversation.prompt, "go")
    await door.entered.wait()
    await settle()
    conversation.cancel_response()
    await asked.ended.wait()
    off()

    assert fake_clock.monotonic() == 0  # a tool that stops at once costs no time
    assert asked.outcome.cancelled
    assert asked.outcome.message is conversation.messages[1]
    assert sent == ["user"]
    assert not conversation.is_busy
    assert shapes(conversation.messages) == ["user", "calls", "results"]
    finished, stopped = outcomes(conversation.messages[-1])
    assert finished == {"result": True, "output": 3}
    assert stopped["message"].startswith("cancelled while running")
    assert stopped.items() >= {**UNKNOWN, "error": "cancelled"}.items()
    assert len(provider.requests) == 1

    assert (await conversation.prompt("new")).text == "new answer"
    assert shapes(provider.requests[1].messages) == ["user", "calls", "results", "user"]


async def test_tls_75_the_outcome_of_a_pure_tool_is_not_in_doubt(scripted, group):
    door = Door(effect="pure")
    conversation, _ = scripted(calls(("door", {})), toolkit=[door.tool])
    asked = Asked(group, conversation.prompt, "go")
    await door.entered.wait()
    conversation.cancel_response()
    await asked.ended.wait()

    assert outcomes(conversation.messages[-1]) == [
        {"result": False, "message": "cancelled while running", "error": "cancelled"}
    ]


async def test_cx_r1_calls_that_had_not_begun_are_cancelled_before_execution(managed, group):
    door = Door()
    counted, notes = counting()
    manager, _ = managed(
        calls(("door", {"place": "a"}), ("door", {"place": "b"}), ("count", {"n": 1})),
        toolkit=[door.tool, counted],
        max_concurrency=1,
    )
    asked = Asked(group, manager.run, "go")
    await door.entered.wait()
    manager.current_workflow.cancel()
    await asked.ended.wait()

    assert asked.outcome.reason == "cancel"
    assert door.runs == 1
    assert notes == []
    running, *waiting = outcomes(manager.conversation.messages[-1])
    assert running["message"].startswith("cancelled while running")
    assert waiting == [{"result": False, "message": "cancelled before execution", "error": "cancelled"}] * 2
    intents = list(manager.conversation.journal.entries(kinds={"tool_intent"}))
    assert len(intents) == 1


async def test_cx_r1_t12_complete_calls_of_a_reply_cut_in_its_stream_are_answered_and_never_run(scripted, group):
    counted, notes = counting()
    cut = [*calls(("count", {"n": 1}, "t1"))[:-1], *calls(("count", {"n": 2}, "t2"))[1:2]]
    conversation, _ = scripted([*cut, stall()], toolkit=[counted])
    asked = Asked(group, conversation.prompt, "go")
    await settle()
    conversation.cancel_response()
    await asked.ended.wait()

    assert notes == []
    assert shapes(conversation.messages) == ["user", "calls", "results"]
    assert len(conversation.messages[-1].content) == len(conversation.messages[1].tool_calls)
    assert all(outcome["message"] == "cancelled before execution" for outcome in outcomes(conversation.messages[-1]))


async def test_wf_12_a_run_cut_in_its_stream_has_the_answers_in_its_messages(managed, group):
    counted, _ = counting()
    manager, _ = managed([*calls(("count", {"n": 1}))[:-1], stall()], toolkit=[counted])
    asked = Asked(group, manager.run, "go")
    await settle()
    manager.conversation.cancel_response()
    await asked.ended.wait()

    assert asked.outcome.reason == "cancel"
    assert shapes(asked.outcome.messages) == ["user", "calls", "results"]
    assert asked.outcome.messages == manager.conversation.messages


async def test_wf_12_a_cancelled_run_has_the_unsent_results_in_its_messages(managed, group):
    door = Door()
    manager, _ = managed(calls(("door", {})), toolkit=[door.tool])
    asked = Asked(group, manager.run, "go")
    await door.entered.wait()
    log = Log()
    log.hear("W", manager.current_workflow)
    manager.conversation.cancel_response()
    await asked.ended.wait()

    assert asked.outcome.messages == manager.conversation.messages
    assert log.names() == ["workflow_update", "state_change", "workflow_end", "dispose", "state_change"]


async def test_wf_12_t13_a_sync_tool_that_heeds_its_token_ends_and_its_value_counts(scripted, group):
    lock = Lock(polite=True)
    conversation, _ = scripted(calls(("lock", {})), toolkit=[lock.tool])
    asked = Asked(group, conversation.prompt, "go")
    await until(lock.entered.is_set)
    conversation.cancel_response()
    await asked.ended.wait()

    assert asked.outcome.cancelled
    assert lock.left.is_set()
    assert outcomes(conversation.messages[-1]) == [{"result": True, "output": "let go"}]


async def test_wf_12_t13_a_sync_tool_that_raises_the_cancellation_was_cancelled(scripted, group):
    entered = threading.Event()

    @tool
    def wait(context: ToolContext) -> None:
        """Wait for the cancel."""
        told = threading.Event()
        context.cancellation.once("cancel", told.set)
        entered.set()
        assert told.wait(60)
        context.cancellation.throw_if_cancellation_requested()

    conversation, _ = scripted(calls(("wait", {})), toolkit=[wait])
    asked = Asked(group, conversation.prompt, "go")
    await until(entered.is_set)
    conversation.cancel_response()
    await asked.ended.wait()

    (outcome,) = outcomes(conversation.messages[-1])
    assert outcome["message"].startswith("cancelled while running")
    assert outcome["error"] == "cancelled"


class Cut:
    """A prompt whose awaiting task is cancelled while three tools run: one has ended, one waits, one heeds its token."""

    def __init__(self, scripted):
        self.door = Door()
        self.lock = Lock(polite=True)
        self.raised = []
        self.conversation, _ = scripted(
            calls(("add", {"a": 1, "b": 2}), ("door", {}), ("lock", {})),
            "new",
            toolkit=[add, self.door.tool, self.lock.tool],
        )

    async def ask(self):
        try:
            await self.conversation.prompt("go")
        except BaseException as error:
            self.raised.append(type(error))
            raise

    async def all_run(self):
        await self.door.entered.wait()
        await until(self.lock.entered.is_set)
        await settle()

    async def check(self):
        assert self.raised == [anyio.get_cancelled_exc_class()]
        assert not self.conversation.is_busy
        assert shapes(self.conversation.messages) == ["user", "calls", "results"]
        finished, stopped, polite = outcomes(self.conversation.messages[-1])
        assert finished["output"] == 3
        assert stopped["message"].startswith("cancelled while running")
        assert polite == {"result": True, "output": "let go"}
        assert (await self.conversation.prompt("new")).text == "new"


async def test_w_wf_5_cancelling_the_scope_around_a_prompt_reaches_its_tools(scripted, group, fake_clock):
    cut = Cut(scripted)
    asked = Asked(group, cut.ask)
    await cut.all_run()
    asked.scope.cancel()
    await asked.ended.wait()
    await cut.check()
    assert fake_clock.monotonic() == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_w_wf_5_cancelling_the_task_of_a_prompt_reaches_its_tools(scripted, fake_clock):
    cut = Cut(scripted)
    task = asyncio.ensure_future(cut.ask())
    await cut.all_run()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    await cut.check()
    assert fake_clock.monotonic() == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cx_r3_a_second_cancel_while_the_first_is_cleaning_up_loses_no_result(scripted, stubborn, fake_clock):
    conversation, _ = scripted(calls(("add", {"a": 1, "b": 2}), ("stubborn", {})), "new", toolkit=[add, stubborn])
    task = asyncio.ensure_future(conversation.prompt("go"))
    await stubborn.entered.wait()
    await settle()

    for _ in range(2):
        task.cancel()
        await settle()

    assert task.cancelled()
    assert shapes(conversation.messages) == ["user", "calls", "results"]
    finished, running = outcomes(conversation.messages[-1])
    assert finished["output"] == 3
    assert running["error"] == "still_running"
    assert not conversation.is_busy
    stubborn.opened.set()
    assert (await conversation.prompt("new")).text == "new"


async def test_cx_r3_cancelling_again_changes_nothing(scripted, group, fake_clock):
    door = Door()
    conversation, _ = scripted(calls(("door", {})), toolkit=[door.tool])
    asked = Asked(group, conversation.prompt, "go")
    await door.entered.wait()

    for _ in range(3):
        conversation.cancel_response()

    await asked.ended.wait()
    assert shapes(conversation.messages) == ["user", "calls", "results"]

    with pytest.raises(InvalidStateError):
        conversation.cancel_response()


async def test_conv_30_a_tool_can_cancel_the_response_it_serves(scripted):
    class Quit(ToolClass):
        """Cancel and go on."""

        async def execute(self) -> str:
            self.context.conversation.cancel_response()
            await anyio.lowlevel.checkpoint()

            return "never"

    conversation, _ = scripted(calls(("quit", {})), "new", toolkit=[Quit])
    response = await conversation.prompt("go")

    assert response.cancelled
    assert outcomes(conversation.messages[-1])[0]["message"].startswith("cancelled while running")
    assert (await conversation.prompt("new")).text == "new"


async def test_conv_30_a_tool_can_cancel_it_from_its_thread(scripted):
    @tool
    def leave(context: ToolContext) -> str:
        """Cancel and come to an end."""
        context.conversation.cancel_response()

        return "left"

    conversation, _ = scripted(calls(("leave", {})), "new", toolkit=[leave])
    assert (await conversation.prompt("go")).cancelled
    assert outcomes(conversation.messages[-1]) == [{"result": True, "output": "left"}]
    assert (await conversation.prompt("new")).text == "new"


async def test_cx_r4_no_request_follows_a_cancel_that_came_with_the_last_result(managed):
    manager, provider = managed(calls(("add", {"a": 1, "b": 2})), "never", toolkit=[add])

    def cancel(event):
        if shapes([manager.conversation.messages[-1]]) == ["results"]:
            manager.conversation.cancel_response()

    manager.conversation.on("history_change", cancel)
    result = await manager.run("go")

    assert result.reason == "cancel"
    assert len(provider.requests) == 1
    assert outcomes(manager.conversation.messages[-1]) == [{"result": True, "output": 3}]
    assert result.messages == manager.conversation.messages


async def test_cx_r4_a_hook_that_hangs_is_cancelled_and_the_result_stays(managed, group, fake_clock):
    told = anyio.Event()

    async def hang(info):
        told.set()
        await anyio.sleep_forever()

    manager, _ = managed(calls(("add", {"a": 1, "b": 2})), toolkit=[add], on_tool_result=hang)
    asked = Asked(group, manager.run, "go")
    await told.wait()
    manager.conversation.cancel_response()
    await asked.ended.wait()

    assert fake_clock.monotonic() == 0
    assert asked.outcome.reason == "cancel"
    assert outcomes(manager.conversation.messages[-1]) == [{"result": True, "output": 3}]


@pytest.mark.parametrize("way", ["response", "workflow", "manager", "conversation"])
async def test_w_wf_1_however_it_is_cancelled_workflow_and_run_end(managed, group, way, fake_clock):
    door = Door()
    manager, _ = managed(calls(("door", {})), toolkit=[door.tool])
    workflows = []
    manager.on(WorkflowBegin, lambda event: workflows.append(event.workflow))
    asked = Asked(group, manager.run, "go")
    await door.entered.wait()

    match way:
        case "response":
            manager.conversation.cancel_response()
        case "workflow":
            workflows[0].cancel()
        case "manager":
            await manager.aclose()
        case "conversation":
            await manager.conversation.aclose()

    await asked.ended.wait()
    assert asked.outcome.reason == "cancel"
    assert workflows[0].state == "disposed"
    assert workflows[0].result is asked.outcome
    assert shapes(manager.conversation.messages) == ["user", "calls", "results"]
    assert fake_clock.monotonic() == 0


async def test_wf_14_disposing_the_conversation_settles_every_waiter(managed, group):
    door = Door()
    manager, _ = managed(calls(("door", {})), toolkit=[door.tool], when_busy="queue")
    running = Asked(group, manager.run, "go")
    await door.entered.wait()
    waiting = [Asked(group, manager.run, "one"), Asked(group, manager.conversation.prompt, "two")]
    await settle()
    await manager.conversation.aclose()
    await settle()

    assert running.outcome.reason == "cancel"
    assert waiting[0].outcome.reason == "cancel"
    assert waiting[1].outcome.cancelled
    assert (manager.state, manager.conversation.state) == ("disposed", "disposed")
