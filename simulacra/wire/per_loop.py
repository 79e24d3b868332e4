"""Sending each request through an HTTP client of the running event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token

from simulacra.wire.loop_end import at_loop_end


class SendsPerLoop:
    """Mixed into the class of an HTTP client: it serves every loop, on asyncio and on trio.

    What goes out goes through a client of the loop, whose connections are closed when the loop ends.

    Args:
        on_asyncio: Makes the client of an asyncio loop.
        on_trio: Makes the client of a trio loop.
        options: Of the HTTP client's class.
    """

    def __init__(self, *, on_asyncio: Callable[[], Any], on_trio: Callable[[], Any], **options: Any) -> None:
        super().__init__(**options)
        self._on_asyncio = on_asyncio
        self._on_trio = on_trio
        self._by_loop: WeakKeyDictionary[object, Any] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request, as the HTTP client does."""
        return await self._current().send(request, **options)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client = self._by_loop.pop(current_token().native_token, None)

        if client is not None:
            await client.aclose()

    def _current(self) -> Any:
        loop = current_token().native_token

        with self._lock:
            client = self._by_loop.get(loop)

            if client is None:
                client = self._by_loop[loop] = (self._on_trio if is_trio(loop) else self._on_asyncio)()
                at_loop_end(self, client.aclose)

            return client


def is_trio(loop: object) -> bool:
    """Whether a native token of anyio is of trio."""
    return type(loop).__module__.startswith("trio")
