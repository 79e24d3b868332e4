"""Time limits of one turn: a timer that compares times when it fires, instead of one armed anew per delta (RX-11)."""

from __future__ import annotations

from collections.abc import Callable

from simulacra.clock import Timer, clock
from simulacra.errors import TimeoutExceededError


class Watchdog:
    """Watches a stream for silence, and the turn for its total length.

    Silence counts only while the engine waits for the vendor: a slow listener or consumer is no stalled stream.

    Args:
        idle: Seconds of silence allowed; `None` sets no limit.
        total: Seconds the turn may take; `None` sets no limit.
        bark: Called when a limit passes; it is expected to end what is waited for.
    """

    def __init__(self, *, idle: float | None, total: float | None, bark: Callable[[], None]) -> None:
        self.expired: TimeoutExceededError | None = None
        self.waiting_since: float | None = None
        self._idle = idle
        self._bark = bark
        self._total_timer: Timer | None = None
        self._idle_timer: Timer | None = None

        if total is not None:
            error = TimeoutExceededError(f"the turn took longer than total_timeout={total} s", retryable=False)
            self._total_timer = clock().call_later(total, lambda: self._expire(error))

    def watch_stream(self) -> None:
        """Begin to watch for silence."""
        if self._idle is not None:
            self._idle_timer = clock().call_later(self._idle, self._look)

    def waits(self) -> None:
        """The engine waits for the vendor from now on."""
        self.waiting_since = clock().monotonic()

    def heard(self) -> None:
        """Something came from the vendor."""
        if self.waiting_since is not None:
            self.waiting_since = clock().monotonic()

    def stop(self) -> None:
        for timer in (self._total_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        assert self._idle is not None
        quiet = 0.0 if self.waiting_since is None else clock().monotonic() - self.waiting_since

        if quiet >= self._idle:
            self._expire(
                TimeoutExceededError(
                    f"the stream stalled: nothing came for idle_timeout={self._idle} s", retryable=False
                )
            )
        else:
            self._idle_timer = clock().call_later(self._idle - quiet, self._look)

    def _expire(self, error: TimeoutExceededError) -> None:
        self.expired = self.expired or error
        self._bark()
