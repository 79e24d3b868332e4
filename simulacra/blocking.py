"""Async work from plain scripts: one background event loop per process, started on first use.

The loop has a thread of its own. A forked child does not inherit it and starts another one; at exit what still runs
is cancelled. Inside a running event loop the calls here refuse: blocking it would stop the very work that is waited
for.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel
from anyio.from_thread import BlockingPortal

from simulacra.errors import ConfigurationError, InvalidStateError

T = TypeVar("T")

_BUFFER = 64
_EXIT_SECONDS = 2.0


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from a plain script and wait for it.

    Ctrl-C cancels the work, waits until it has settled, and is raised again.

    Args:
        work: A coroutine, for example `conversation.checkpoint()`.

    Raises:
        ConfigurationError: It is no coroutine.
        InvalidStateError: Called inside a running event loop; await the coroutine instead.
    """
    if not isinstance(work, Coroutine):
        raise ConfigurationError(
            f"run_sync takes a coroutine, such as conversation.checkpoint(), not {type(work).__name__}"
        )

    try:
        refuse_inside_loop("run_sync", "await the coroutine")
    except InvalidStateError:
        work.close()
        raise

    settled = threading.Event()
    scopes: list[anyio.CancelScope] = []

    async def settle() -> T | None:
        try:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                return await work
        finally:
            settled.set()

        return None  # given up: the caller raises

    async def give_up() -> None:
        if scopes:
            scopes[0].cancel()
        else:
            work.close()
            settled.set()

    portal = _portal()

    try:
        return cast("T", portal.start_task_soon(settle).result())
    except BaseException:
        if not settled.is_set():
            # Ctrl-C may come before the start is confirmed, and the future with it. Tasks start in the order asked for.
            portal.start_task_soon(give_up)
            settled.wait()

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
        give_back: Told, over there, of the items that nobody took before the pump was closed.
    """

    def __init__(
        self, source: AbstractAsyncContextManager[AsyncIterator[T]], give_back: Callable[[Sequence[T]], None]
    ) -> None:
        self._source = source
        self._give_back = give_back
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_finished = False
        self._is_closed = False
        self._room: anyio.Event | None = None
        self._portal = _portal()
        self._future: Future[None] = self._portal.start_task_soon(self._fill)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_finished or self._is_closed)

            if self._is_closed:
                raise StopIteration

            if self._items:
                item = self._items.popleft()
                self._make_room()

                return item

        self._future.result()
        raise StopIteration

    def close(self) -> None:
        """Cancel what is left and wait until it has settled; a failure was raised by the iteration or is dropped."""
        with self._changed:
            was_closed, self._is_closed = self._is_closed, True

        if not was_closed:
            self._portal.start_task_soon(self._give_up)

        with self._changed:
            self._changed.wait_for(lambda: self._is_finished)

    async def _fill(self) -> None:
        self._scope = anyio.CancelScope()

        try:
            with self._scope:
                async with self._source as items:
                    async for item in items:
                        await self._put(item)
        finally:
            with self._changed:
                self._is_finished = True
                self._changed.notify_all()

    async def _give_up(self) -> None:
        """Tasks start in the order asked for: filling has begun, and is between two items or waits for one."""
        if not self._is_finished:
            self._give_back(self._items)

        self._scope.cancel()

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


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        started: Future[BlockingPortal] = Future()
        self._thread = threading.Thread(target=_serve, args=(started,), name="simulacra", daemon=True)
        self._thread.start()
        self.portal = started.result()

    @property
    def is_alive(self) -> bool:
        """Whether it still runs: work that raised `SystemExit` has ended it."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Cancel what runs, and wait for that, for a bounded time."""
        self.portal.start_task_soon(self.portal.stop, True)
        self._thread.join(_EXIT_SECONDS)


def _serve(started: Future[BlockingPortal]) -> None:
    async def serve() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    anyio.run(serve)


class _Process:
    """The background loop of this process, if it was needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: _Loop | None = None
        self.inherited: list[_Loop | None] = []

    def forked(self) -> None:
        """In a child: its parent's loop is dead here. It is kept, as freeing it would run its tasks' cleanup twice."""
        self.inherited.append(self.loop)
        self.lock, self.loop = threading.Lock(), None


_process = _Process()


def _portal() -> BlockingPortal:
    with _process.lock:
        if _process.loop is None or not _process.loop.is_alive:
            _process.loop = _Loop()

        return _process.loop.portal


@atexit.register
def _stop() -> None:
    loop, _process.loop = _process.loop, None

    if loop is not None and loop.is_alive:
        loop.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forked)
