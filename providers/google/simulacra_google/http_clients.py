"""An HTTP client for every event loop, since connections belong to the loop that opened them."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
from anyio.lowlevel import current_token

from simulacra.wire import at_loop_end


class AsyncClientPerLoop(httpx2.AsyncClient):
    """Sends each request through a client of the running loop, on asyncio and on trio.

    The connections of a loop are closed when it ends.
    """

    def __init__(self) -> None:
        super().__init__(follow_redirects=True, timeout=None)
        self._by_loop: WeakKeyDictionary[object, httpx2.AsyncClient] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await self._current().send(request, **options)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client = self._by_loop.pop(current_token().native_token, None)

        if client is not None:
            await client.aclose()

    def _current(self) -> httpx2.AsyncClient:
        loop = current_token().native_token

        with self._lock:
            known = self._by_loop.get(loop)

            if known is None:
                limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
                known = self._by_loop[loop] = httpx2.AsyncClient(follow_redirects=True, timeout=None, limits=limits)
                at_loop_end(self, known.aclose)

            return known
