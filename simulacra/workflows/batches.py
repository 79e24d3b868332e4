"""Running the tool calls of one reply: in batches, results in call order, exactly one result per call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import anyio

from simulacra.background import Background, Job
from simulacra.clock import clock, time_limit
from simulacra.journal import EntryDraft, Journal
from simulacra.messages import ToolContent, ToolErrorResult, ToolResultContent
from simulacra.tools import ToolContext, ToolRunner
from simulacra.turn import SETTLE_SECONDS
from simulacra.workflows.limits import LoopOptions, ToolResultInfo

CANCELLED_BEFORE = "cancelled before execution"
CANCELLED_WHILE = "cancelled while running"


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
        late: Told of a call that ended after it had been answered as still running.
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
        self._runner = runner
        self._calls = calls
        self._contexts = contexts
        self._journal = journal
        self._options = options
        self._request_id = request_id
        self._report = report
        self._late = late
        self._background = background
        self._jobs: dict[int, Job] = {}
        self._made: dict[int, ToolContext[Any]] = {}
        self._started: set[int] = set()
        self._results: dict[int, ToolResultContent] = {}

    def refuse(self, positions: Iterator[int] | Sequence[int], message: str, error: str) -> None:
        """Answer calls that will not run."""
        for position in positions:
            self._results.setdefault(position, error_result(self._calls[position], message, error=error))

    async def run(self) -> None:
        """Run what was not refused, batch after batch."""
        for batch in self._batches():
            self._journal.record(*(self._intent(position) for position in batch))
            limiter = anyio.Semaphore(self._options.max_concurrency, fast_acquire=True)
            self._jobs = {
                position: self._background.start(partial(self._run_one, limiter, position)) for position in batch
            }

            for job in self._jobs.values():
                await job.wait()

    async def settle(self) -> tuple[ToolResultContent, ...]:
        """One result per call, in call order; what a cancel left open is answered here (WF-3, WF-12)."""
        await self._stop_jobs()

        for position, call in enumerate(self._calls):
            if position in self._results:
                continue

            if position in self._started:
                result = self._interrupted(position)
                self._journal.record(self._outcome(call, result))
            else:
                result = error_result(call, CANCELLED_BEFORE, error="cancelled")

            self._results[position] = result

        return tuple(self._results[position] for position in range(len(self._calls)))

    def _batches(self) -> Iterator[list[int]]:
        """Parallelizable calls gather, a non-parallelizable one closes the batch and runs alone (WF-2)."""
        batch: list[int] = []

        for position, call in enumerate(self._calls):
            if position in self._results:
                continue

            if self._runner.is_parallelizable(call.tool):
                batch.append(position)
                continue

            if batch:
                yield batch
                batch = []

            yield [position]

        if batch:
            yield batch

    async def _stop_jobs(self) -> None:
        """Cancel what still runs and wait for it, for a bounded time; it may have finished all the same."""
        running = [job for job in self._jobs.values() if not job.is_done]

        for job in running:
            job.cancel()

        if running:
            with time_limit(SETTLE_SECONDS, shield=True):
                for job in running:
                    await job.wait()

    async def _run_one(self, limiter: anyio.Semaphore, position: int) -> None:
        async with limiter:
            await self._call(position)

    async def _call(self, position: int) -> None:
        call = self._calls[position]
        self._started.add(position)
        began = clock().monotonic()
        result = await self._runner.run(call, self._made[position])

        if position in self._results:
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

    def _intent(self, position: int) -> EntryDraft:
        call = self._calls[position]
        context = self._made[position] = self._contexts(position)
        body = {
            "tool_request_id": call.tool_request_id,
            "tool": call.tool,
            "params": call.params,
            "effect": self._runner.effect(call.tool),
            "key": context.idempotency_key,
        }

        return EntryDraft("tool_intent", body)

    def _outcome(self, call: ToolContent, result: ToolResultContent) -> EntryDraft:
        return EntryDraft("tool_result", {"tool_request_id": call.tool_request_id, "content": result})

    def _interrupted(self, position: int) -> ToolResultContent:
        call = self._calls[position]
        error = "cancelled" if self._jobs[position].is_done else "still_running"

        if self._runner.effect(call.tool) == "pure":
            return error_result(call, CANCELLED_WHILE, error=error)

        message = f"{CANCELLED_WHILE}: whether it took effect is unknown. Check that before you repeat it"

        return error_result(call, message, error=error, outcome="unknown")


def error_result(call: ToolContent, message: str, *, error: str, **details: str) -> ToolResultContent:
    """An error result that answers `call`."""
    return ToolResultContent(
        tool_request_id=call.tool_request_id,
        tool=call.tool,
        result=ToolErrorResult(message=message, error=error, **details),
        timestamp=clock().now_ms(),
    )
