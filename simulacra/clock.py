"""The one seam for time and ids: wall clock, monotonic clock, sleeping, timers, identifiers.

Everything in the engine that waits, stamps or names something asks `clock()`. Tests put another one in its place
with `use_clock` (`simulacra.testing.FakeClock`), so that bounds and deadlines are asserted without waiting.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Protocol

import anyio
from anyio import CancelScope

from simulacra.scopes import cancel_scope

# The variant is two fixed bits before two random ones: of a random digit's sixteen values four remain.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


class Timer(Protocol):
    """A callback that will run once, unless it is cancelled first."""

    def cancel(self) -> None: ...


class Clock:
    """Real time. Subclass it to control time in tests."""

    def __init__(self) -> None:
        self._last_id = 0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds on a clock that never goes backwards; its zero means nothing."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancellation point even for zero seconds."""
        await anyio.sleep(max(0.0, seconds))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the current event loop after `seconds`, unless the timer is cancelled."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return _TrioTimer(seconds, callback)

        return loop.call_later(seconds, callback)

    def new_id(self) -> str:
        """A UUID7: unique, and ordered by the time it was made, also within one millisecond (RFC 9562, method 1)."""
        with self._lock:
            self._last_id = max((self.now_ms() << 12), self._last_id + 1)
            stamp = self._last_id

        time_part, random_part = f"{stamp >> 12:012x}", os.urandom(8).hex()
        variant = _VARIANTS[random_part[0]]

        return (
            f"{time_part[-12:-4]}-{time_part[-4:]}-7{stamp & 0xFFF:03x}-{variant}{random_part[1:4]}-{random_part[4:]}"
        )


class _TrioTimer:
    """trio has no call_later; a system task that sleeps does the same."""

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        import trio  # noqa: PLC0415 -- only one of the two loops is in use

        self._scope = trio.CancelScope()

        async def wait() -> None:
            with self._scope:
                await trio.sleep(max(0.0, seconds))
                callback()

        trio.lowlevel.spawn_system_task(wait)

    def cancel(self) -> None:
        self._scope.cancel()


_current = Clock()


def clock() -> Clock:
    """The clock in use."""
    return _current


@contextmanager
def use_clock(replacement: Clock) -> Iterator[Clock]:
    """Put another clock in place for the length of the block.

    Args:
        replacement: The clock that `clock()` returns inside the block.
    """
    global _current  # noqa: PLW0603 -- this is the seam
    previous, _current = _current, replacement

    try:
        yield replacement
    finally:
        _current = previous


def time_limit(seconds: float | None, *, shield: bool = False) -> TimeLimit:
    """Cancel what runs inside after `seconds`; look at `scope.cancelled_caught` afterwards.

    Args:
        seconds: The limit; `None` sets none.
        shield: Keep cancellation from outside away from what runs inside.
    """
    return TimeLimit(seconds, shield=shield)


class TimeLimit(AbstractContextManager[CancelScope, bool | None]):
    """What `time_limit` gives. No generator: that would cost as much again, several times per turn."""

    __slots__ = ("_scope", "_seconds", "_timer")

    def __init__(self, seconds: float | None, *, shield: bool) -> None:
        self._seconds = seconds
        self._scope = cancel_scope(shield=shield)
        self._timer: Timer | None = None

    def __enter__(self) -> CancelScope:
        scope = self._scope.__enter__()

        if self._seconds is not None:
            self._timer = clock().call_later(self._seconds, scope.cancel)

        return scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._timer is not None:
            self._timer.cancel()

        return self._scope.__exit__(kind, error, trace)
