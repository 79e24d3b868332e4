"""One call while it runs: in its task or in a thread, until it ends by itself or is stopped."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from anyio import CapacityLimiter, to_thread

from simulacra.cancellation import CancellationToken, CancellationTokenSource
from simulacra.clock import Timer, clock
from simulacra.errors import ToolError
from simulacra.scopes import cancel_scope
from simulacra.tools.signature import plain_function

StopReason = Literal["timeout", "cancelled"]
STOP_SECONDS = 0.08
"""So long a thread may take to come to its end by itself once its turn was cancelled; what is left of the 100 ms that a
cancel may take, the turn needs to end (T13)."""


@dataclass(slots=True)
class Outcome:
    """How a call ended.

    Args:
        value: What the tool returned.
        error: What it raised.
        stopped: Why it was stopped; `None` when it ended by itself.
        still_running: Whether its thread goes on nevertheless.
    """

    value: Any = None
    error: BaseException | None = None
    stopped: StopReason | None = None
    still_running: bool = False


class Execution:
    """What ends a running call from outside: its time limit or its turn. The first one holds (TLS-32).

    Args:
        turn: The turn's token.
        timeout: Seconds the tool may take from its start; `None` and 0 set no limit.
    """

    def __init__(self, turn: CancellationToken, timeout: float | None) -> None:
        self._turn = turn
        self._timeout = timeout
        self._scope = cancel_scope()
        self._source = CancellationTokenSource()
        self._grace: Timer | None = None
        self._stopped: StopReason | None = None
        self._has_thread = False
        self._still_running = False

    @property
    def token(self) -> CancellationToken:
        """The tool's own token: cancelled whatever stops it, which is all that a thread can see of it."""
        return self._source.token

    async def run(self, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Run `work`; whatever it raises is the tool's own, but the cancellation of this task (TL-R1).

        Args:
            work: Runs the tool, by `in_task` or `in_thread`.
        """
        unsubscribe = self._turn.once("cancel", functools.partial(self._stop, "cancelled"))
        outcome = Outcome()

        try:
            with self._scope:
                outcome = await _caught(work)
        except BaseException:
            self._source.cancel()
            raise
        finally:
            unsubscribe()

            if self._grace is not None:
                self._grace.cancel()

        ended_in_time = self._stopped == "cancelled" and outcome.error is None and not self._scope.cancelled_caught

        if self._stopped is None or ended_in_time:
            return outcome

        return Outcome(stopped=self._stopped, still_running=self._still_running)

    async def in_task(self, function: Callable[[], Any], *, must_await: bool = False) -> Outcome:
        """Call an async function.

        Args:
            function: The call.
            must_await: Whether a value that is no awaitable is an error, not the result (TLS-25).
        """
        timer = self._start_timer()

        try:
            value = function()

            if inspect.isawaitable(value):
                return Outcome(await value)

            if must_await:
                name = getattr(plain_function(function), "__qualname__", repr(function))
                raise ToolError(f"{name} is declared asynchronous but returned {type(value).__name__}, no awaitable")

            return Outcome(value)
        finally:
            if timer is not None:
                timer.cancel()

    async def in_thread(
        self, function: Callable[[], Any], limiter: CapacityLimiter, on_late: Callable[[Outcome], object]
    ) -> Outcome:
        """Call a sync function in a worker thread, with this task's context variables (TLS-26).

        Args:
            function: The call. An awaitable it returns is awaited here.
            limiter: How many may run at once; waiting for a place takes none of the tool's time.
            on_late: Told, in the thread, how a call ended that was given up before.
        """
        async with limiter:
            handover = _Handover(function, on_late)
            timer = self._start_timer()

            try:
                outcome = await self._from_thread(handover)

                return Outcome(await outcome.value) if inspect.isawaitable(outcome.value) else outcome
            finally:
                if timer is not None:
                    timer.cancel()

    async def _from_thread(self, handover: _Handover) -> Outcome:
        self._has_thread = True

        try:
            # A limiter of one's own: the place is given back when the call is answered, not when a thread that
            # cannot be stopped comes to its end.
            await to_thread.run_sync(handover.run, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        except BaseException:
            self._still_running = handover.abandon()
            raise

        self._has_thread = False

        return handover.outcome

    def _start_timer(self) -> Timer | None:
        return clock().call_later(self._timeout, functools.partial(self._stop, "timeout")) if self._timeout else None

    def _stop(self, reason: StopReason) -> None:
        if self._stopped is not None:
            return

        self._stopped = reason
        self._source.cancel()

        if reason == "cancelled" and self._has_thread:
            self._grace = clock().call_later(STOP_SECONDS, self._scope.cancel)
        else:
            self._scope.cancel()


class _Handover:
    """Between the thread of a call and the task that waits for it: exactly one of them gets the outcome."""

    def __init__(self, function: Callable[[], Any], on_late: Callable[[Outcome], object]) -> None:
        self._function = function
        self._on_late = on_late
        self._lock = threading.Lock()
        self._started = False
        self._abandoned = False
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        assert self._outcome is not None, "read after the thread has ended"

        return self._outcome

    def run(self) -> None:
        """In the thread."""
        with self._lock:
            self._started = not self._abandoned

        if not self._started:
            return

        try:
            outcome = Outcome(self._function())
        except BaseException as error:  # noqa: BLE001 -- a thread has nobody above it; the task decides what this means
            outcome = Outcome(error=error)

        with self._lock:
            self._outcome = outcome
            late = self._abandoned

        if late:
            self._on_late(outcome)

    def abandon(self) -> bool:
        """In the task: stop waiting. Tells whether the thread goes on."""
        with self._lock:
            self._abandoned = True
            ended = self._outcome

        if ended is not None:
            self._on_late(ended)

        return self._started and ended is None


async def _caught(work: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """What `work` makes, or what it raised, unless this task is to stop."""
    before = _native_cancellations()

    try:
        return await work()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if _is_cancellation(error) and _is_cancelled(before):
            raise

        return Outcome(error=error)


def _native_cancellations() -> int:
    """How often asyncio was asked to cancel this task; trio has nothing beside scopes."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0

    return 0 if task is None else task.cancelling()


def _is_cancelled(native_before: int) -> bool:
    """Whether this task is to stop, by a scope around it or by asyncio itself."""
    return anyio.current_effective_deadline() == -math.inf or _native_cancellations() > native_before


def _is_cancellation(error: BaseException) -> bool:
    cancelled = anyio.get_cancelled_exc_class()

    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1] is None

    return isinstance(error, cancelled)
