"""Opening a stream: reading up to its first event, and holding it so that limits can watch it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Any, TypeVar

from simulacra.clock import time_limit
from simulacra.messages import Usage
from simulacra.streaming.deltas import MessageStart, StreamEvent, UsageUpdate

T = TypeVar("T")
_CLOSE_SECONDS = 0.05  # half of what a cancelled turn has to settle in


def opens_reply(event: StreamEvent) -> bool:
    """Whether an event is a *first event*: content, or the closing one. What comes before is held back (RX-3)."""
    return not isinstance(event, MessageStart | UsageUpdate)


async def peek_generator(
    iterator: AsyncIterator[T], until: Callable[[T], bool] | None = None
) -> tuple[T | None, AsyncGenerator[T, None]]:
    """Read up to the first item, or the first that `until` accepts.

    Args:
        iterator: The source. It is closed when reading fails, and when the returned iterator is closed.
        until: Which item to stop at; the first one when not given.

    Returns:
        That item (`None` when the source ended before it) and an iterator that replays what was read.
    """
    seen: list[T] = []
    found: T | None = None

    try:
        async for item in iterator:
            seen.append(item)

            if until is None or until(item):
                found = item
                break
    except BaseException:
        await _close_anyway(iterator)
        raise

    return found, _Replay(seen, iterator)


class _Replay(AsyncGenerator[T, None]):
    """Replays what was read, then goes on with the source; closing it closes the source, also when never started."""

    def __init__(self, seen: list[T], source: AsyncIterator[T]) -> None:
        self._seen = seen[::-1]
        self._source = source
        self._closed = False

    async def __anext__(self) -> T:
        if self._closed:
            raise StopAsyncIteration

        return self._seen.pop() if self._seen else await self._source.__anext__()

    async def asend(self, value: None) -> T:
        del value

        return await self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: Any = None) -> T:
        del val, tb
        await self.aclose()
        raise typ

    async def aclose(self) -> None:
        self._closed = True
        self._seen.clear()
        await _close(self._source)


class OpenStream:
    """A stream that was opened for an attempt, past the reach of retries.

    Limits hang on to it: `on_usage` tells the usage so far, `on_close` the final one, once, however it ended.

    Args:
        events: The provider's events, from the first on.
        provider_kind: Kind of the provider that answers.
        model: The model asked for.
    """

    def __init__(self, events: AsyncGenerator[StreamEvent, None], *, provider_kind: str, model: str) -> None:
        self.events = events
        self.provider_kind = provider_kind
        self.model = model
        self.usage = Usage()
        self._usage_hooks: list[Callable[[Usage], object]] = []
        self._close_hooks: list[Callable[[Usage], object]] = []
        self._closed = False

    def on_usage(self, hook: Callable[[Usage], object]) -> None:
        """Call `hook`, sync or async, with each new running total; what it raises ends the turn."""
        self._usage_hooks.append(hook)

    def on_close(self, hook: Callable[[Usage], object]) -> None:
        """Call `hook`, sync or async, with the final usage when the stream is closed."""
        self._close_hooks.append(hook)

    async def report_usage(self, usage: Usage) -> None:
        """Told by the turn whenever the running total changes."""
        self.usage = usage

        for hook in self._usage_hooks:
            await _settle(hook(usage))

    async def aclose(self) -> None:
        """Close the source and settle what hangs on to it. Closing again does nothing."""
        if self._closed:
            return

        self._closed = True
        failures: list[Exception] = []

        try:
            await self.events.aclose()
        finally:
            for hook in self._close_hooks:
                try:
                    await _settle(hook(self.usage))
                except Exception as error:  # noqa: BLE001 -- every limit settles, whatever another one does
                    failures.append(error)

        if failures:
            raise failures[0]


async def _settle(outcome: object) -> None:
    if inspect.isawaitable(outcome):
        await outcome


async def _close_anyway(iterator: AsyncIterator[T]) -> None:
    """Close after a failure or a cancellation: within a bound, and never in place of what went wrong."""
    with suppress(Exception), time_limit(_CLOSE_SECONDS, shield=True):
        await _close(iterator)


async def _close(iterator: AsyncIterator[T]) -> None:
    aclose = getattr(iterator, "aclose", None)

    if aclose is not None:
        await aclose()
