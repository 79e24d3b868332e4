"""Cancel scopes of the running event loop, and signals that cost nothing until somebody waits for them.

anyio asks for each scope and each event anew which event loop runs, which costs as much as making it; a turn makes
dozens, a tool loop hundreds.
"""

from __future__ import annotations

import asyncio

import anyio
from anyio import CancelScope

_asyncio_scope: type[CancelScope] | None = None


def cancel_scope(*, shield: bool = False) -> CancelScope:
    """A scope to be entered by this task.

    Args:
        shield: Keep cancellation from outside away from what runs inside.
    """
    global _asyncio_scope  # noqa: PLW0603 -- anyio's own class for asyncio, found on first use

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return CancelScope(shield=shield)

    if _asyncio_scope is None:
        _asyncio_scope = type(CancelScope())

    return _asyncio_scope(shield=shield)


class Signal:
    """Set once, waited for by any number of tasks of one event loop. The event behind it is made for the first waiter."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

        if self._event is not None:
            self._event.set()

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self) -> None:
        """Wait until it is set; a cancellation point in any case."""
        if self._event is None:
            self._event = anyio.Event()

            if self._is_set:
                self._event.set()

        await self._event.wait()
