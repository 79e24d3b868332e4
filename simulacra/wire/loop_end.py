"""Closing what belongs to an event loop when the loop ends, which neither asyncio nor trio offers a callback for."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakMethod, finalize, ref

import anyio
from anyio.lowlevel import current_token

Close: TypeAlias = Callable[[], Awaitable[object]]

logger = logging.getLogger("simulacra.wire")
CLOSE_SECONDS = 1.0
_known: WeakKeyDictionary[object, WeakKeyDictionary[object, bool]] = WeakKeyDictionary()
"""Per owner the loops it was asked on."""
_ends: WeakKeyDictionary[object, _End] = WeakKeyDictionary()
_lock = threading.Lock()


def at_loop_end(owner: object, close: Close) -> None:
    """Have the running event loop close something when it ends, or when its owner is dropped before.

    Args:
        owner: Whose it is; for each loop it is asked on, the first call counts.
        close: Closes it, for at most `CLOSE_SECONDS`; where it is called again it finds nothing to do. It must not refer
            to the owner.
    """
    loop = current_token().native_token

    with _lock:
        loops = _known.setdefault(owner, WeakKeyDictionary())

        if loop in loops:
            return

        loops[loop] = True
        end = _ends.get(loop)

        if end is None:
            end = _ends[loop] = _end_of_running_loop()

        release = WeakMethod(end.release)

    finalize(owner, _call, release, end.add(close)).atexit = False


class _End(ABC):
    """What is to be closed when one loop ends."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._closers: dict[int, Close] = {}

    def add(self, close: Close) -> int:
        number = next(self._numbers)
        self._closers[number] = close

        return number

    @abstractmethod
    def release(self, number: int) -> None:
        """Close one of them before: its owner is gone. Called from any thread."""

    async def _close(self, number: int) -> None:
        """It stays known until it is closed, lest a loop that ends meanwhile forgets it."""
        close = self._closers.get(number)

        if close is not None:
            await _closed(close)
            self._closers.pop(number, None)

    async def _close_all(self, loop: object) -> None:
        try:
            for number in tuple(self._closers):
                await self._close(number)
        finally:
            _ends.pop(loop, None)  # it refers to the loop, which would stay as long as its entry


class _AsyncioEnd(_End):
    """An asynchronous generator that is never ended: `asyncio.run` closes those while the loop still works (PEP 525).

    A task would be seen by whoever waits for all tasks.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loop = ref(asyncio.get_running_loop())
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = self._wait()

        with suppress(StopIteration):  # how a coroutine that awaits nothing says that it is done
            self._waiting.__anext__().send(None)

    def release(self, number: int) -> None:
        loop = self._loop()

        with suppress(RuntimeError):  # the loop has ended
            if loop is not None:
                loop.call_soon_threadsafe(self._start, number)

    def _start(self, number: int) -> None:
        task = asyncio.get_running_loop().create_task(self._close(number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._close_all(asyncio.get_running_loop())
            await asyncio.gather(*self._tasks, return_exceptions=True)


class _TrioEnd(_End):
    """A system task, which trio cancels after the main one: it complains of generators that are dropped."""

    def __init__(self) -> None:
        super().__init__()
        import trio  # noqa: PLC0415 -- only one of the two loops is in use

        token = trio.lowlevel.current_trio_token()
        self._token = ref(token)
        trio.lowlevel.spawn_system_task(self._wait)

    def release(self, number: int) -> None:
        import trio  # noqa: PLC0415 -- only one of the two loops is in use

        token = self._token()

        with suppress(RuntimeError):  # the loop has ended
            if token is not None:
                token.run_sync_soon(trio.lowlevel.spawn_system_task, self._close, number)

    async def _wait(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await self._close_all(current_token().native_token)


def _end_of_running_loop() -> _End:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _TrioEnd()

    return _AsyncioEnd()


def _call(release: WeakMethod[Any], number: int) -> None:
    method = release()

    if method is not None:
        method(number)


async def _closed(close: Close) -> None:
    # A loop that is ending starts nothing any more, which the engine's own clock would need.
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        try:
            await close()
        except Exception:
            logger.debug("closing at the end of an event loop failed", exc_info=True)
