"""Running the tool calls of one reply: in batches, results in call order, exactly one result per call."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import anyio

from simulacra.background import Background, Job
from simulacra.clock import clock, time_limit
from simulacra.journal import EntryDraft, Journal
from simulacra.messages import ToolContent, ToolErrorResult, ToolResultContent
from simulacra.tools import ToolContext, ToolProgress, ToolRunner
from simulacra.turn import SETTLE_SECONDS
from simulacra.workflows.limits import LoopOptions, ToolResultInfo

CANCELLED_BEFORE = "cancelled before execution"


class ToolRound:
    """The calls of one reply.

    Args:
        runner: Runs one call.
        calls: The calls, in the reply's order.
        contexts: Makes the context of a call, given its position.
        journal: Keeps intents and results.
        background: Runs the calls; one that does not stop when asked to is left behind there.
        options: Bounds and hooks.
        request_id: The turn that asked for the calls.
        report: Told of a hook that raised.
        late: Told of a call that ended after it had been answered.
    """

    def __init__(  # noqa: PLR0913 -- the parts of one round, all by name
        self,
        runner: ToolRunner,
        calls: Sequence[ToolContent],
        *,
        contexts: Callable[[int], ToolContext[Any]],
        journal: Journal,
        background: Background,
        options: LoopOptions,
        request_id: str,
        report: Callable[[Exception, str], Awaitable[None]],
        late: Callable[[ToolContent, ToolResultContent], Awaitable[None]],
    ) -> None:
        self.runner = runner
        self.progress: deque[ToolProgress] = deque()
        """What running calls told of how far they are, and nobody took yet."""
        self._calls = calls
        self._contexts = contexts
        self._journal = journal
        self._options = options
        self._request_id = request_id
        self._report = report
        self._late = late
        self._background = background
        self._batches: Iterator[list[int]] = self._gather()
        self._jobs: dict[int, Job] = {}
        self._running = 0
        self._news = anyio.Event()
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
        return self._running > 0

    async def advance(self) -> bool:
        """Start the next batch when none is under way, then wait for news: a call that ended, or progress.

        Returns:
            Whether there is more to wait for; `False` when every call has its answer.

        Raises:
            Exception: The engine itself failed while it made a call.
        """
        if not self._running and not self._start_batch():
            return False

        await self._news.wait()
        self._news = anyio.Event()

        if self._failure is not None:
            raise self._failure

        return True

    def hear(self, progress: ToolProgress) -> None:
        """A running call tells how far it is."""
        self.progress.append(progress)
        self._news.set()

    async def stop(self) -> None:
        """Wait for calls whose token was cancelled, for a bounded time; calls that have not begun do not begin."""
        running = [(position, job) for position, job in self._jobs.items() if not job.is_done]

        for position, job in running:
            if position in self._results or position not in self._started:
                job.cancel()

        if running:
            with time_limit(SETTLE_SECONDS, shield=True):
                for _, job in running:
                    await job.wait()

    def results(self) -> tuple[ToolResultContent, ...]:
        """One result per call, in call order; what a cancel left open is answered here (WF-3, WF-12)."""
        for position, call in enumerate(self._calls):
            if position in self._results:
                continue

            if position in self._started:
                result = self.runner.still_running(call)
                self._journal.record(self._outcome(call, result))
            else:
                result = error_result(call, CANCELLED_BEFORE, error="cancelled")

            self._results[position] = result

        return tuple(self._results[position] for position in range(len(self._calls)))

    def _start_batch(self) -> bool:
        batch = next(self._batches, None)

        if batch is None:
            return False

        limiter = anyio.Semaphore(self._options.max_concurrency, fast_acquire=True)
        self._running = len(batch)
        self._jobs = {position: self._background.start(partial(self._run_one, limiter, position)) for position in batch}

        return True

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

    async def _run_one(self, limiter: anyio.Semaphore, position: int) -> None:
        try:
            async with limiter:
                await self._call(position)
        except Exception as error:  # noqa: BLE001 -- raised by advance(); what a tool raises is a result already
            self._failure = error
        finally:
            self._running -= 1
            self._news.set()

    async def _call(self, position: int) -> None:
        call, context = self._calls[position], self._contexts(position)
        self._started.add(position)
        self._journal.record(self._intent(call, context))
        began = clock().monotonic()
        result = await self.runner.run(call, context)

        if position in self._results:
            if not _goes_on(result):
                await self._late(call, result)

            return

        self._results[position] = result
        self._journal.record(self._outcome(call, result))

        if self._options.on_tool_result is not None:
            duration_ms = (clock().monotonic() - began) * 1000
            await self._tell(
                ToolResultInfo(call=call, result=result, request_id=self._request_id, duration_ms=duration_ms)
            )

    async def _tell(self, info: ToolResultInfo) -> None:
        assert self._options.on_tool_result is not None

        try:
            outcome = self._options.on_tool_result(info)

            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:  # noqa: BLE001 -- a hook stops nothing
            await self._report(error, "on_tool_result")

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
