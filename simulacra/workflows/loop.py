"""The tool loop: exchange, run the tools that were asked for, send the results, until the model is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio

from simulacra.clock import clock
from simulacra.dialog.inputs import admitted, input_of
from simulacra.dialog.run import Run
from simulacra.emitter import Event
from simulacra.events import HistoryChange
from simulacra.journal import EntryDraft
from simulacra.messages import Response, ToolContent, ToolResultContent, Usage, UserMessage
from simulacra.tools import ToolClass, ToolContext, ToolProgress, ToolRunner
from simulacra.turn import Turn, TurnPlan
from simulacra.workflows.batches import ToolRound
from simulacra.workflows.limits import LoopOptions
from simulacra.workflows.result import WorkflowReason, reason_of, reason_of_error

if TYPE_CHECKING:
    from simulacra.workflows.workflow import Workflow

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
        self._choice = options.tool_choice or run.options.tool_choice
        self._calls_made = 0
        self._is_final = False
        self._runner: tuple[Toolkit, ToolRunner] | None = None

    async def events(self, inputs: tuple[UserMessage, ...], *, committed: bool = False) -> AsyncGenerator[Event, None]:
        """Conduct the loop.

        Args:
            inputs: What to send first.
            committed: Whether that is in history already.
        """
        plan: TurnPlan | None = TurnPlan(inputs=inputs, committed=committed, tool_choice=self._choice)

        while plan is not None:
            runner = self._runner_of(self._core.settings.toolkit)
            turn = self._run.turn(plan)

            async with aclosing(self._exchange(turn)) as events:
                async for event in events:
                    yield event

            if self.error is not None or self.response is None:
                return

            if not (calls := _calls_of(self.response)):
                plan = await self._next_input(self.response)
                continue

            async with aclosing(self._tool_round(turn.request_id, calls, runner)) as events:
                async for event in events:
                    yield event

            plan = await self._after_tools(self.response)

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

    async def _tool_round(
        self, request_id: str, calls: tuple[ToolContent, ...], runner: ToolRunner
    ) -> AsyncGenerator[Event, None]:
        """Run the calls and commit their results as one user message (WF-4); a cancel leaves no call open."""
        round_ = self._round(request_id, calls, runner)

        try:
            with self._run.step():
                await round_.run()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._commit(round_, request_id)

            raise

        await self._commit(round_, request_id)

        while self._run.outbox:
            yield self._run.outbox.popleft()

    def _round(self, request_id: str, calls: tuple[ToolContent, ...], runner: ToolRunner) -> ToolRound:
        assert self.response is not None
        message_id = "" if self.response.message is None else self.response.message.id
        round_ = ToolRound(
            runner,
            calls,
            contexts=lambda position: self._context(calls[position], f"{message_id}:{position}", runner),
            journal=self._core.journal,
            background=self._core.background,
            options=self._options,
            request_id=request_id,
            report=self._core.report,
            late=self._note_late,
        )
        stop_reason = self.response.stop_reason

        if self.response.cancelled or self._run.is_cancelled:
            round_.refuse(range(len(calls)), "cancelled before execution", "cancelled")
        elif stop_reason != "tool_use":
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

    async def _commit(self, round_: ToolRound, request_id: str) -> None:
        results = await round_.settle()
        now = clock().now_ms()
        message = UserMessage(results, id=clock().new_id(), timestamp=now)
        body = {"message": message, "request_id": request_id, "committed": True}
        entered = self._core.journal.record(EntryDraft("user_admitted", body))
        self._answer = message
        await self._announce_history(entered, request_id)

    async def _note_late(self, call: ToolContent, result: ToolResultContent) -> None:
        """A call that was answered as still running has ended: one text note at its own place (T14)."""
        outcome = result.result.model_dump_json()
        note = admitted(input_of(f"The tool {call.tool}, reported as still running, has ended: {outcome}"))
        body = {"message": note, "request_id": "", "committed": True}
        self._core.journal.record(
            EntryDraft("tool_result", {"tool_request_id": call.tool_request_id, "content": result, "late": True})
        )
        await self._announce_history(self._core.journal.record(EntryDraft("user_admitted", body)), "", late=True)

    async def _announce_history(self, entered: tuple[str, ...], request_id: str, *, late: bool = False) -> None:
        await self._core.emitter.emit(
            HistoryChange(
                conversation=self._core.conversation,
                request_id=request_id,
                reason="append",
                message_ids=entered,
                seq=self._core.journal.head,
                late=late,
            )
        )

    async def _after_tools(self, response: Response) -> TurnPlan | None:
        """The follow-up with the results, or `None` when the loop ends here."""
        if self._run.is_cancelled:
            self.reason = "cancel"
            self.response = Response(
                message=response.message,
                stop_reason="cancelled",
                usage=response.usage,
                request_id=response.request_id,
            )
            return None

        if response.stop_reason != "tool_use" or self._is_final:
            self.reason = "limit" if self._is_final else reason_of(response.stop_reason)
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
        self.reason = "limit" if self._is_final else reason_of(response.stop_reason)

        if self._is_final or response.stop_reason not in _NORMAL:
            return None

        waiting = self._core.floor.next_message()

        if waiting is None:
            return None

        await self._workflow.announce_dequeued(waiting.contents)

        return TurnPlan(inputs=(admitted(waiting.message),), tool_choice=self._follow_up_choice())

    def _follow_up_choice(self) -> str | None:
        """A choice that forces a call holds for the first request only: else no answer would ever come (TLS-40)."""
        return self._choice if self._choice in _FREE_CHOICES else "auto"

    def _context(self, call: ToolContent, place: str, runner: ToolRunner) -> ToolContext[Any]:
        keyed = runner.effect(call.tool) in _KEYED_EFFECTS

        return ToolContext(
            conversation=self._core.conversation,
            workflow=self._workflow,
            tool_request_id=call.tool_request_id,
            cancellation=self._run.source.token,
            context_data=self._context_data,
            idempotency_key=f"{self._core.id}:{place}" if keyed else None,
            on_progress=self._tell_progress,
        )

    def _tell_progress(self, progress: ToolProgress) -> None:
        self._workflow.announce_progress(progress)

    def _runner_of(self, toolkit: Toolkit) -> ToolRunner:
        """The runner of the toolkit offered in this turn (CONV-29); kept while the toolkit stays."""
        if self._runner is None or self._runner[0] is not toolkit:
            options = self._options
            runner = ToolRunner(
                toolkit, max_result_bytes=options.max_result_bytes, thread_limit=options.max_concurrency
            )
            self._runner = (toolkit, runner)

        return self._runner[1]


def _calls_of(response: Response) -> tuple[ToolContent, ...]:
    """The calls that still need an answer; those of an interrupted reply have theirs already."""
    if response.message is None or response.message.status != "complete":
        return ()

    return response.message.tool_calls
