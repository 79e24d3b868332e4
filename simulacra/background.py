"""Work beside the caller: it may outlive the call that started it, but not its owner.

A task group ends only when all its tasks have, however long they shield themselves. Where a bound must hold (a
cancelled tool, a late observer) the work runs here instead: waiting for it can be given up, the work stays owned.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import anyio

from simulacra.clock import time_limit
from simulacra.scopes import Signal, cancel_scope

logger = logging.getLogger("simulacra.background")
CLOSE_SECONDS = 0.1


def call_soon(function: Callable[[], object]) -> None:
    """Call a function, in the caller's context, as soon as the running task waits for anything or ends."""
    if (loop := _asyncio_loop()) is not None:
        loop.call_soon(function)
    else:
        import trio  # noqa: PLC0415 -- only one of the two loops is in use

        trio.lowlevel.current_trio_token().run_sync_soon(copy_context().run, function)


class HomeLoop:
    """The event loop of the task that makes this, to be called from whatever thread.

    Another thread never waits for the call: a loop that has ended would not answer, and a thread that waits for it keeps
    the program alive.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._soon = _soon_from_any_thread()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function there: at once from its own thread, soon and in the order of the calls from others.

        Raises:
            RuntimeError: The loop has ended, which its own error says; one that is just ending may drop the call.
        """
        if threading.get_ident() == self._thread:
            function()
        else:
            self._soon(function)


class Job:
    """One piece of background work; it ends by itself, or when it is cancelled."""

    def __init__(self, work: Callable[[], Awaitable[None]], ended: Callable[[Job], None]) -> None:
        self._work = work
        self._ended = ended
        self._scope = cancel_scope()
        self._done = Signal()
        self._task: Any = None

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def cancel(self) -> None:
        """Ask the work to stop."""
        self._scope.cancel()

    async def wait(self) -> None:
        """Wait until it has ended, however it did."""
        await self._done.wait()

    def start(self) -> None:
        if (loop := _asyncio_loop()) is not None:
            self._task = loop.create_task(self._run())
        else:
            import trio  # noqa: PLC0415 -- only one of the two loops is in use

            self._task = trio.lowlevel.spawn_system_task(self._run, context=copy_context())

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        except Exception:
            logger.exception("background work failed")
        except BaseException as error:
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                raise
        finally:
            self._ended(self)
            self._done.set()
            self._task = None  # it holds this coroutine: together only the collector would free them


class Background:
    """Owns jobs; when it is closed none is left running that would stop when asked to."""

    def __init__(self) -> None:
        self._jobs: set[Job] = set()

    def start(self, work: Callable[[], Awaitable[None]]) -> Job:
        """Run `work` as a task of its own, in the caller's context; what it raises is logged.

        Args:
            work: Reports its own outcome.
        """
        job = Job(work, self._jobs.discard)
        self._jobs.add(job)
        job.start()

        return job

    async def aclose(self) -> None:
        """Cancel every job and wait for them, for a bounded time."""
        jobs = tuple(self._jobs)

        for job in jobs:
            job.cancel()

        with time_limit(CLOSE_SECONDS, shield=True):
            for job in jobs:
                await job.wait()


def _soon_from_any_thread() -> Callable[[Callable[[], object]], object]:
    if (loop := _asyncio_loop()) is not None:
        return loop.call_soon_threadsafe

    import trio  # noqa: PLC0415 -- only one of the two loops is in use

    token = trio.lowlevel.current_trio_token()

    return lambda function: token.run_sync_soon(copy_context().run, function)


def _asyncio_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
