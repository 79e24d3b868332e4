"""Running the tool calls of one reply: in batches, results in call order, exactly one result per call."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import anyio

from simulacra.background import Job, call_soon
from simulacra.cancellation import cancellable
from simulacra.clock import clock, time_limit
from simulacra.dialog.run import Run
from simulacra.dialog.work import Work, begin_work
from simulacra.errors import OperationCancelledError
from simulacra.journal import EntryDraft
from simulacra.messages import ToolContent, ToolErrorResult, ToolResultContent
from simulacra.scopes import Signal
from simulacra.tools import ToolContext, ToolProgress, ToolRunner
from simulacra.turn import SETTLE_SECONDS
from simulacra.workflows.limits import LoopOptions, ToolResultInfo

CANCELLED_BEFORE = "cancelled before execution"


class ToolRound:
    """The calls of one reply.

    Args:
        run: Whose reply it is.
        runner: Runs one call.
        calls: The calls, in the reply's order.
        contexts: Makes the context of a call, given its position.
        options: Bounds and hooks.
        request_id: The turn that asked for the calls.
        late: Told of a call that ended after it had been answered.
    """

    def __init__(
        self,
        run: Run,
        runner: ToolRunner,
        calls: Sequence[ToolContent],
        *,
        contexts: Callable[[int], ToolContext[Any]],
        options: LoopOptions,
        request_id: str,
        late: Callable[[ToolContent, ToolResultContent], Awaitable[None]],
    ) -> None:
        self.runner = runner
        self.progress: deque[ToolProgress] = deque()
        """What running calls told of how far they are, and nobody took yet."""
        self._run = run
        self._core = run.core
        self._cancellation = run.source.token
        self._calls = calls
        self._contexts = contexts
        self._options = options
        self._request_id = request_id
        self._late = late
        self._batches: Iterator[list[int]] = self._gather()
        self._jobs: list[Job] = []
        self._waiting: deque[int] = deque()
        self._working = 0
        self._is_help_called = False
        self._news = Signal()
        self._failure: Exception | None = None
        self._started: set[int] = set()
        self._results: dict[int, ToolResultContent] = {}

    def refuse(self, positions: Iterator[int] | Sequence[int], message: str, error: str) -> None:
        """Answer calls that will not run."""
        for position in positions:
            self._results.setdefault(position, error_result(self._calls[position], message, error=error))

    @property
    def is_running(self) -> bool:
        """Whether calls are under way."""
        return self._working > 0

    async def advance(self) -> bool:
        """Start the next batch when none is under way, then wait for news: progress, or the end of the batch.

        Returns:
            Whether there is more to wait for; `False` when every call has its answer.

        Raises:
            Exception: The engine itself failed while it made a call.
        """
        if not self.is_running and not self._start_batch():
            return False

        await self._news.wait()
        self._news = Signal()

        if self._failure is not None:
            raise self._failure

        return True

    def hear(self, progress: ToolProgress) -> None:
        """A running call tells how far it is."""
        self.progress.append(progress)
        self.stir()

    def stir(self) -> None:
        """There is something to tell."""
        self._news.set()

    async def stop(self) -> None:
        """Wait for calls whose token was cancelled, for a bounded time; calls that have not begun do not begin."""
        if not self._working:
            return

        with time_limit(SETTLE_SECONDS, shield=True):
            for job in self._jobs:
                await job.wait()

    def results(self) -> tuple[ToolResultContent, ...]:
        """One result per call, in call order; what a cancel left open is answered here (WF-3, WF-12)."""
        for position, call in enumerate(self._calls):
            if position in self._results:
                continue

            if position in self._started:
                result = self.runner.still_running(call)
                self._core.journal.record(self._outcome(call, result))
            else:
                result = error_result(call, CANCELLED_BEFORE, error="cancelled")

            self._results[position] = result

        return tuple(self._results[position] for position in range(len(self._calls)))

    def _start_batch(self) -> bool:
        batch = next(self._batches, None)

        if batch is None:
            return False

        self._waiting.extend(batch)
        self._jobs = []
        self._start_workers(1)

        return True

    def _start_workers(self, wanted: int) -> None:
        count = min(wanted, self._options.max_concurrency - self._working)
        self._working += count
        self._jobs += [self._core.background.start(self._work_off) for _ in range(count)]

    def _help(self) -> None:
        """A worker has to wait: what has not begun begins now, as far as the bound allows it."""
        self._is_help_called = False

        if not self._cancellation.is_cancellation_requested:
            self._start_workers(len(self._waiting))

    def _gather(self) -> Iterator[list[int]]:
        """Parallelizable calls gather, a non-parallelizable one closes the batch and runs alone (WF-2)."""
        batch: list[int] = []

        for position, call in enumerate(self._calls):
            if position in self._results:
                continue

            if self.runner.is_parallelizable(call.tool):
                batch.append(position)
                continue

            if batch:
                yield batch
                batch = []

            yield [position]

        if batch:
            yield batch

    async def _work_off(self) -> None:
        """Make one call after the other, in call order; as soon as one of them waits, others go on beside it.

        Calls that never wait share one task: making a task costs more than many a tool.
        """
        in_task, in_thread = Work(self._run, anyio.get_current_task().id), Work(self._run, None)

        try:
            while self._waiting and not self._cancellation.is_cancellation_requested:
                position = self._waiting.popleft()

                if self._waiting and not self._is_help_called:
                    self._is_help_called = True
                    call_soon(self._help)

                await self._call(position, in_task, in_thread)
        except Exception as error:  # noqa: BLE001 -- raised by advance(); what a tool raises is a result already
            self._failure = error
            self._waiting.clear()
        finally:
            self._working -= 1
            self.stir()

    async def _call(self, position: int, in_task: Work, in_thread: Work) -> None:
        call, context = self._calls[position], self._contexts(position)
        self._started.add(position)
        self._core.journal.record(self._intent(call, context))
        begin_work(in_thread if self.runner.is_threaded(call.tool) else in_task)
        began = clock().monotonic()
        result = await self.runner.run(call, context)

        if position in self._results:
            if not _goes_on(result):
                await self._late(call, result)

            return

        self._results[position] = result
        self._core.journal.record(self._outcome(call, result))

        if self._options.on_tool_result is not None:
            duration_ms = (clock().monotonic() - began) * 1000
            await self._tell(
                ToolResultInfo(call=call, result=result, request_id=self._request_id, duration_ms=duration_ms)
            )

    async def _tell(self, info: ToolResultInfo) -> None:
        try:
            await cancellable(self._cancellation, self._hook, info)
        except Exception as error:  # noqa: BLE001 -- a hook stops nothing
            was_stopped = isinstance(error, OperationCancelledError) and self._cancellation.is_cancellation_requested

            if not was_stopped:
                await self._core.report(error, "on_tool_result")

    async def _hook(self, info: ToolResultInfo) -> None:
        assert self._options.on_tool_result is not None
        outcome = self._options.on_tool_result(info)

        if inspect.isawaitable(outcome):
            await outcome

    def _intent(self, call: ToolContent, context: ToolContext[Any]) -> EntryDraft:
        body = {
            "tool_request_id": call.tool_request_id,
            "tool": call.tool,
            "params": call.params,
            "effect": self.runner.effect(call.tool),
            "key": context.idempotency_key,
        }

        return EntryDraft("tool_intent", body)

    def _outcome(self, call: ToolContent, result: ToolResultContent) -> EntryDraft:
        return EntryDraft("tool_result", {"tool_request_id": call.tool_request_id, "content": result})


def _goes_on(result: ToolResultContent) -> bool:
    """Whether a result only says that the call's thread has not ended; its outcome comes later."""
    return getattr(result.result, "error", None) == "still_running"


def error_result(call: ToolContent, message: str, *, error: str, **details: str) -> ToolResultContent:
    """An error result that answers `call`."""
    return ToolResultContent(
        tool_request_id=call.tool_request_id,
        tool=call.tool,
        result=ToolErrorResult(message=message, error=error, **details),
        timestamp=clock().now_ms(),
    )
