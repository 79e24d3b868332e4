"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import anyio
import anyio.lowlevel

from simulacra.clock import Clock, Timer

EPOCH_MS = 1_700_000_000_000
_NANOSECONDS = 1_000_000_000
# A finished task reaches the one that waits for it in a few turns of the asyncio loop.
_QUIET_TURNS = 5


@dataclass(slots=True, order=True)
class _FakeTimer:
    due: float
    order: int
    callback: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock(Clock):
    """Time for tests: deadlines pass, sleepers wake and timers fire only when the clock is moved.

    Put it in place with `simulacra.clock.use_clock`. Ids count up: `id-000001`, `id-000002`, ...

    Args:
        autojump: Let time jump to the next deadline by itself whenever every task is blocked and somebody sleeps. For
            tests without threads and sockets: a task that waits for one of those counts as blocked.
        start_ms: Wall-clock time at the beginning, in milliseconds since the epoch.
    """

    _movers: ClassVar[set[object]] = set()
    """Tasks that move a clock, this one or another: two that waited for each other to be quiet would do so for ever."""

    def __init__(self, *, autojump: bool = False, start_ms: int = EPOCH_MS) -> None:
        super().__init__()
        self.sleeps: list[float] = []
        """Seconds of every sleep asked for, in order."""
        self._autojump = autojump
        self._start_ms = start_ms
        self._elapsed: float = 0  # nanoseconds: sums of tenths stay exact
        self._timers: list[_FakeTimer] = []
        self._order = itertools.count()
        self._ids = itertools.count(1)
        self._sleepers = 0
        self._jumper: object | None = None

    @property
    def pending(self) -> int:
        """How many sleeps and timers wait for their deadline."""
        return sum(not timer.cancelled for timer in self._timers)

    def now_ms(self) -> int:
        return self._start_ms + int(self._elapsed // 1_000_000)

    def monotonic(self) -> float:
        return self._elapsed / _NANOSECONDS

    def new_id(self) -> str:
        return f"id-{next(self._ids):06d}"

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        delay = seconds if math.isinf(seconds) else round(max(0.0, seconds) * _NANOSECONDS)

        if seconds > 0:  # never nothing: who waits for the last bit of a time would be woken without end
            delay = max(delay, 1)

        timer = _FakeTimer(self._elapsed + delay, next(self._order), callback)
        heapq.heappush(self._timers, timer)

        return timer

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)

        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return

        woken = anyio.Event()
        timer = self.call_later(seconds, woken.set)
        self._sleepers += 1

        try:
            if self._autojump and self._jumper is None:
                self._jumper = _spawn(self._jump)

            await woken.wait()
        finally:
            self._sleepers -= 1
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Move time on, deadline by deadline; every task that a deadline wakes runs before the next one passes.

        Args:
            seconds: How far; zero lets what is ready run.
        """
        target = self._elapsed + round(seconds * _NANOSECONDS)
        await self._settle()

        while self._fire_next(target):
            await self._settle()

        self._elapsed = max(self._elapsed, target)

    async def _jump(self) -> None:
        try:
            await self._settle()

            while self._sleepers and self._fire_next(math.inf):
                await self._settle()
        finally:
            self._jumper = None

    def _fire_next(self, until: float) -> bool:
        """Move to the next deadline and fire it, unless it lies beyond `until`."""
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)

        if not self._timers or self._timers[0].due > until or math.isinf(self._timers[0].due):
            return False

        timer = heapq.heappop(self._timers)
        self._elapsed = max(self._elapsed, timer.due)
        timer.cancelled = True
        timer.callback()

        return True

    async def _settle(self) -> None:
        """Let every task run until it waits for something; tasks that move this clock do not count."""
        if not _on_asyncio():
            await anyio.wait_all_tasks_blocked()
            return

        mover = asyncio.current_task()
        self._movers.add(mover)
        quiet = 0

        try:
            while quiet < _QUIET_TURNS:
                await asyncio.sleep(0)
                busy = any(_is_ready(task) for task in asyncio.all_tasks() if task not in self._movers)
                quiet = 0 if busy else quiet + 1
        finally:
            self._movers.discard(mover)


def _is_ready(task: object) -> bool:
    """Whether an asyncio task will run in the next turn of its loop; anyio's own test of it, without its real pause."""
    waiter = getattr(task, "_fut_waiter", None)

    return waiter is None or waiter.done()


def _on_asyncio() -> bool:
    return isinstance(anyio.lowlevel.current_token().native_token, asyncio.AbstractEventLoop)


def _spawn(work: Callable[[], object]) -> object:
    """Start a task beside all others; it ends when nobody sleeps any more."""
    if _on_asyncio():
        return asyncio.ensure_future(work())  # type: ignore[call-overload] # a coroutine function's result

    import trio  # noqa: PLC0415 -- only one of the two loops is in use

    return trio.lowlevel.spawn_system_task(work)  # type: ignore[arg-type] # a coroutine function
