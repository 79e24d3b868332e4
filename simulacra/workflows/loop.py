"""The tool loop: exchange, run the tools that were asked for, send the results, until the model is done."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from simulacra.dialog.inputs import admitted, answering, input_of
from simulacra.dialog.run import Run
from simulacra.emitter import Event
from simulacra.events import HistoryChange
from simulacra.fencing import fence
from simulacra.journal import EntryDraft
from simulacra.messages import Response, ToolContent, ToolResultContent, Usage, UserMessage
from simulacra.tools import ToolClass, ToolContext, ToolRunner
from simulacra.turn import Turn, TurnPlan
from simulacra.workflows.batches import ToolRound
from simulacra.workflows.limits import LoopOptions
from simulacra.workflows.result import WorkflowReason, reason_of, reason_of_error

if TYPE_CHECKING:
    from simulacra.workflows.workflow import Workflow

logger = logging.getLogger("simulacra.workflows")

Toolkit = tuple[type[ToolClass], ...]
_NORMAL = frozenset({"end_turn", "stop_sequence", "other"})
_KEYED_EFFECTS = frozenset({"pure", "idempotent"})
_FREE_CHOICES = frozenset({None, "auto", "none"})


class ToolLoop:
    """One loop, on one run. Iterate `events` to its end; then the attributes tell how it went.

    Args:
        workflow: Whose loop it is; shown to tools, told of progress.
        run: Holds the floor.
        options: Bounds and hooks.
        context_data: Shared by all tools of the workflow.
    """

    def __init__(self, workflow: Workflow, run: Run, options: LoopOptions, context_data: Any) -> None:
        self.reason: WorkflowReason = "complete"
        self.response: Response | None = None
        self.error: Exception | None = None
        self.usage = Usage()
        self.rounds = 0
        self._workflow = workflow
        self._run = run
        self._core = run.core
        self._options = options
        self._context_data = context_data
        self._choice = run.changes.get("tool_choice") or options.tool_choice or run.options.tool_choice
        self._calls_made = 0
        self._is_final = False
        self._answer: UserMessage | None = None
        self._runner: tuple[ToolRunner, ToolRunner] | None = None

    async def events(self, inputs: tuple[UserMessage, ...], *, committed: bool = False) -> AsyncGenerator[Event, None]:
        """Conduct the loop.

        Args:
            inputs: What to send first.
            committed: Whether that is in history already.
        """
        plan: TurnPlan | None = TurnPlan(inputs=inputs, committed=committed, tool_choice=self._choice)

        while plan is not None:
            runner = self._runner_of(self._core.settings.runner)
            turn = self._run.turn(plan)

            async with aclosing(self._exchange(turn)) as events:
                async for event in events:
                    yield event

            if self.error is not None or self.response is None:
                return

            if not (calls := _calls_of(self.response)):
                plan = await self._next_input(self.response)
                continue

            async with aclosing(self._tool_round(turn, self._round(turn, calls, runner))) as events:
                async for event in events:
                    yield event

            plan = self._after_tools(self.response)

    async def _exchange(self, turn: Turn) -> AsyncGenerator[Event, None]:
        self.response = None

        try:
            async with aclosing(turn.events()) as events:
                async for event in events:
                    yield event
        except Exception as error:  # noqa: BLE001 -- the result carries it and the driver raises it
            self.error = error
            self.reason = reason_of_error(error)
        finally:
            self.response = turn.response
            self.usage += turn.usage
            self.rounds += turn.response is not None

    async def _tool_round(self, turn: Turn, round_: ToolRound) -> AsyncGenerator[Event, None]:
        """Run the calls and commit their results as one user message (WF-4); whatever ends it leaves no call open."""
        goes_on = True
        self._workflow.stir = round_.stir

        try:
            while goes_on:
                goes_on = False

                with self._run.step():
                    goes_on = await round_.advance()

                    while round_.progress:
                        await self._workflow.announce_progress(round_.progress.popleft())

                while self._run.outbox:
                    yield self._run.outbox.popleft()
        finally:
            if round_.is_running:
                self._run.cancel()

            await self._commit(turn, round_)

            if self._run.is_cancelled and self.response is not None:
                self.response = dataclasses.replace(self.response, stop_reason="cancelled", stop_details=None)

        while self._run.outbox:
            yield self._run.outbox.popleft()

    def _round(self, turn: Turn, calls: tuple[ToolContent, ...], runner: ToolRunner) -> ToolRound:
        assert self.response is not None
        round_ = ToolRound(
            self._run,
            runner,
            calls,
            contexts=lambda position: self._context(turn.message_id, position, calls[position], round_),
            options=self._options,
            request_id=turn.request_id,
            late=self._note_late,
        )
        stop_reason = self.response.stop_reason

        if stop_reason != "tool_use":
            round_.refuse(range(len(calls)), f"not executed: the reply was cut off ({stop_reason})", "cut_off")
        elif self._is_final:
            round_.refuse(range(len(calls)), "not executed: no further tool can be called in this run", "limit")
        elif self._options.max_tool_calls is not None:
            allowed = max(0, self._options.max_tool_calls - self._calls_made)
            round_.refuse(
                range(allowed, len(calls)),
                f"not executed: at most {self._options.max_tool_calls} tool calls are allowed in this run",
                "limit",
            )

        self._calls_made += len(calls)

        return round_

    async def _commit(self, turn: Turn, round_: ToolRound) -> None:
        """Put the results behind their reply, in its place: what came meanwhile stands after them."""
        try:
            await round_.stop()
        finally:  # asyncio can cancel what is shielded, too
            self._answer = answering(round_.results())
            entered = self._core.journal.record(_committed(self._answer, turn.request_id, slot=turn.slot))

        if self._run.wants(HistoryChange):
            with self._run.closing():
                await self._run.emit(self._history_change(entered, turn.request_id))

    def _hear_late(self, call: ToolContent, result: ToolResultContent) -> None:
        """Told by a thread that could not be stopped, at its end."""
        note = partial(self._note_late, call, result)

        try:
            self._run.home.call(partial(self._core.background.start, note))
        except RuntimeError:
            logger.warning("tool=<%s> | ended after its event loop: nobody is told the outcome", call.tool)

    async def _note_late(self, call: ToolContent, result: ToolResultContent) -> None:
        """A call that was answered before it had ended has ended: one text note at its own place (T14)."""
        journal = self._core.journal
        body = {"tool_request_id": call.tool_request_id, "content": result, "late": True}
        journal.record(EntryDraft("tool_result", body))

        if self._answer is not None and journal.history.position(self._answer.id or "") is None:
            return  # history was cleared or replaced meanwhile

        outcome = fence("result", result.result.model_dump_json())
        note = admitted(input_of(f"The tool {call.tool}, which was still running, has ended:\n{outcome}"))
        await self._core.emitter.emit(self._history_change(journal.record(_committed(note, "")), ""))

    def _history_change(self, entered: tuple[str, ...], request_id: str) -> HistoryChange:
        return HistoryChange(
            conversation=self._core.conversation,
            request_id=request_id,
            reason="append",
            message_ids=entered,
            seq=self._core.journal.head,
        )

    def _after_tools(self, response: Response) -> TurnPlan | None:
        """The follow-up with the results, or `None` when the loop ends here."""
        assert self._answer is not None
        self.reason = self._reason_of(response)

        if response.stop_reason != "tool_use" or self._is_final:
            return None

        limit = self._options.max_tool_calls
        self._is_final = self.rounds >= self._options.max_rounds or (limit is not None and self._calls_made > limit)

        if self._is_final:
            return TurnPlan(
                inputs=(self._answer,),
                committed=True,
                tool_choice="none",
                added_system=self._options.final_system_prompt,
            )

        return TurnPlan(inputs=(self._answer,), committed=True, tool_choice=self._follow_up_choice())

    async def _next_input(self, response: Response) -> TurnPlan | None:
        """After a reply without calls: the next queued message, or the end."""
        self.reason = self._reason_of(response)

        if self._is_final or self._run.is_cancelled or response.stop_reason not in _NORMAL:
            return None

        waiting = self._core.floor.next_message()

        if waiting is None:
            return None

        is_due = False

        try:
            with self._run.step():
                await self._workflow.announce_dequeued(waiting.contents)

            is_due = not self._run.is_cancelled
        finally:
            if not is_due:
                self._core.floor.put_back(waiting)

        if not is_due:
            return None

        return TurnPlan(inputs=(admitted(waiting.message),), tool_choice=self._follow_up_choice())

    def _reason_of(self, response: Response) -> WorkflowReason:
        """The last request's own answer ends a loop that was limited, unless it ended badly itself."""
        reason = reason_of(response.stop_reason)

        return "limit" if self._is_final and reason == "complete" else reason

    def _follow_up_choice(self) -> str | None:
        """A choice that forces a call holds for the first request only: else no answer would ever come (TLS-40)."""
        return self._choice if self._choice in _FREE_CHOICES else "auto"

    def _context(self, message_id: str, position: int, call: ToolContent, round_: ToolRound) -> ToolContext[Any]:
        keyed = round_.runner.effect(call.tool) in _KEYED_EFFECTS

        return ToolContext(
            conversation=self._core.conversation,
            workflow=self._workflow,
            tool_request_id=call.tool_request_id,
            cancellation=self._run.source.token,
            context_data=self._context_data,
            idempotency_key=f"{self._core.id}:{message_id}:{position}" if keyed else None,
            on_progress=round_.hear,
        )

    def _runner_of(self, offered: ToolRunner) -> ToolRunner:
        """The runner of the toolkit offered in this turn (CONV-29); kept while the toolkit stays."""
        if self._runner is None or self._runner[0] is not offered:
            options = self._options
            runner = offered.limited(
                max_result_bytes=options.max_result_bytes,
                thread_limit=options.max_concurrency,
                on_late_result=self._hear_late,
            )
            self._runner = (offered, runner)

        return self._runner[1]


def _calls_of(response: Response) -> tuple[ToolContent, ...]:
    """The calls that still need an answer; those of an interrupted reply have theirs already."""
    if response.message is None or response.message.status != "complete":
        return ()

    return response.message.tool_calls


def _committed(message: UserMessage, request_id: str, *, slot: int | None = None) -> EntryDraft:
    """A message that is in history at once."""
    return EntryDraft("user_admitted", {"message": message, "request_id": request_id, "committed": True}, slot=slot)
