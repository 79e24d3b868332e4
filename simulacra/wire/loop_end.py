"""Closing what belongs to an event loop when the loop ends, which neither asyncio nor trio offers a callback for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

import anyio
from anyio.lowlevel import current_token

logger = logging.getLogger("simulacra.wire")
CLOSE_SECONDS = 1.0


_guards: WeakKeyDictionary[object, WeakKeyDictionary[object, object]] = WeakKeyDictionary()
_lock = threading.Lock()


def at_loop_end(owner: object, close: Callable[[], Awaitable[object]]) -> None:
    """Have the running event loop close something when it ends, or when its owner is dropped before.

    Args:
        owner: Whose it is; for each loop it is asked on, the first call counts.
        close: Closes it; called once, for at most `CLOSE_SECONDS`. It must not refer to the owner.
    """
    loop = current_token().native_token

    with _lock:
        by_loop = _guards.setdefault(owner, WeakKeyDictionary())

        if loop not in by_loop:
            by_loop[loop] = _guard(partial(_close_and_forget, close, ref(by_loop)))


def _guard(close: Callable[[], Awaitable[object]]) -> object:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _TrioGuard(close)

    return _asyncio_guard(close)


def _asyncio_guard(close: Callable[[], Awaitable[object]]) -> AsyncGenerator[None, None]:
    """An asynchronous generator that is never ended: `asyncio.run` closes those while the loop still works (PEP 525).

    A task would be seen by whoever waits for all tasks.
    """

    async def wait() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await _closed(close)

    waiting = wait()

    with suppress(StopIteration):  # how a coroutine that awaits nothing says that it is done
        waiting.__anext__().send(None)

    return waiting


class _TrioGuard:
    """A system task, which trio cancels after the main one: it complains of generators that are dropped."""

    def __init__(self, close: Callable[[], Awaitable[object]]) -> None:
        import trio  # noqa: PLC0415 -- only one of the two loops is in use

        token = trio.lowlevel.current_trio_token()
        self._token = ref(token)
        self._dropped = trio.Event()
        trio.lowlevel.spawn_system_task(_close_after, self._dropped, close)

    def __del__(self) -> None:
        token = self._token()

        with suppress(RuntimeError):  # the loop has ended
            if token is not None:
                token.run_sync_soon(self._dropped.set)


async def _close_after(dropped: Any, close: Callable[[], Awaitable[object]]) -> None:
    try:
        await dropped.wait()
    finally:
        await _closed(close)


async def _close_and_forget(close: Callable[[], Awaitable[object]], by_loop: ref[WeakKeyDictionary[Any, Any]]) -> None:
    """Close, and drop the guard: it refers to its loop, which would stay as long as its entry."""
    try:
        await close()
    finally:
        guards = by_loop()

        if guards is not None:
            guards.pop(current_token().native_token, None)


async def _closed(close: Callable[[], Awaitable[object]]) -> None:
    # A loop that is ending starts nothing any more, which the engine's own clock would need.
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        try:
            await close()
        except Exception:
            logger.debug("closing at the end of an event loop failed", exc_info=True)
