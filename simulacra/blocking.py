"""Async work from plain scripts: one background event loop per process, started on first use.

The loop's thread is keyed by process id, so a forked child starts its own, and it is stopped at exit. Inside a
running event loop the calls here refuse: blocking it would stop the very work that is waited for.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.from_thread import BlockingPortal, start_blocking_portal

from simulacra.errors import InvalidStateError

T = TypeVar("T")

_lock = threading.Lock()
_portals: dict[int, tuple[AbstractContextManager[BlockingPortal], BlockingPortal]] = {}
_BUFFER = 64


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from a plain script and wait for it.

    Ctrl-C cancels the work, waits until it has settled, and is raised again.

    Args:
        work: A coroutine, for example `conversation.checkpoint()`.

    Raises:
        InvalidStateError: Called inside a running event loop; await the coroutine instead.
    """
    try:
        refuse_inside_loop("run_sync", "await the coroutine")
    except InvalidStateError:
        work.close()
        raise

    async def awaited() -> T:
        return await work

    return call(awaited)


def call(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function on the background loop; as `run_sync`, without the check."""
    future = _portal().start_task_soon(function)

    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            _wait(future)

        raise


def refuse_inside_loop(operation: str, remedy: str) -> None:
    """Raise when an event loop runs in this thread.

    Raises:
        InvalidStateError: With the async call to use instead.
    """
    try:
        anyio.lowlevel.current_token()
    except anyio.NoEventLoopError:
        return

    raise InvalidStateError(operation, state="inside a running event loop", allowed=("plain scripts",), remedy=remedy)


class Pump(Generic[T]):
    """An async stream, iterated from a plain script: a task on the background loop fills a bounded buffer.

    Args:
        source: What to open and iterate over there.
    """

    def __init__(self, source: AbstractAsyncContextManager[AsyncIterator[T]]) -> None:
        self._source = source
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._finished = False
        self._room: anyio.Event | None = None
        self._portal = _portal()
        self._future: Future[None] = self._portal.start_task_soon(self._fill)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._finished)

            if self._items:
                item = self._items.popleft()
                self._make_room()

                return item

        self._future.result()
        raise StopIteration

    def close(self) -> None:
        """Cancel what is left and wait until it has settled; a failure was raised by the iteration or is dropped."""
        if not self._future.done():
            self._future.cancel()

        _wait(self._future)

    async def _fill(self) -> None:
        try:
            async with self._source as items:
                async for item in items:
                    await self._put(item)
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    async def _put(self, item: T) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()
            self._room = anyio.Event() if len(self._items) >= _BUFFER else None
            room = self._room

        if room is not None:
            await room.wait()

    def _make_room(self) -> None:
        if self._room is not None and len(self._items) < _BUFFER // 2:
            room, self._room = self._room, None
            self._portal.start_task_soon(_set, room)


async def _set(event: anyio.Event) -> None:
    event.set()


def _portal() -> BlockingPortal:
    with _lock:
        held = _portals.get(os.getpid())

        if held is None:
            manager = start_blocking_portal("asyncio", name="simulacra")
            held = (manager, manager.__enter__())
            _portals.clear()  # a parent's portal is dead in a forked child
            _portals[os.getpid()] = held

        return held[1]


def _wait(future: Any) -> None:
    """Wait until cancelled work has settled, whatever it raises."""
    with suppress(BaseException):  # the caller raises what matters
        future.exception()


@atexit.register
def _stop() -> None:
    held = _portals.pop(os.getpid(), None)

    if held is not None:
        held[0].__exit__(None, None, None)
