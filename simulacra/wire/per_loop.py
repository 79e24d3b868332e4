"""Sending each request through an HTTP client of the running event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token

from simulacra.wire.loop_end import at_loop_end

LARGE_BYTES = 1024 * 1024
"""aiohttp sends a body in one piece, and warns of one that is larger."""


class SendsPerLoop:
    """Mixed into the class of an HTTP client: it serves every loop, on asyncio and on trio.

    What goes out goes through a client of the loop, whose connections are closed when the loop ends.

    Args:
        usual: Makes a client for any loop.
        over_aiohttp: Makes one that is quicker, for asyncio and bodies of up to `LARGE_BYTES`.
        options: Of the HTTP client's class.
    """

    def __init__(
        self, *, usual: Callable[[], Any], over_aiohttp: Callable[[], Any] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._usual = usual
        self._over_aiohttp = over_aiohttp or usual
        self._by_loop: WeakKeyDictionary[object, dict[Callable[[], Any], Any]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request, as the HTTP client does."""
        is_large = int(request.headers.get("content-length", 0)) > LARGE_BYTES

        return await self._client(is_large=is_large).send(request, **options)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await _close(self._by_loop.get(current_token().native_token, {}))

    def _client(self, *, is_large: bool) -> Any:
        loop = current_token().native_token
        make = self._usual if is_large or is_trio(loop) else self._over_aiohttp

        with self._lock:
            clients = self._by_loop.get(loop)

            if clients is None:
                clients = self._by_loop[loop] = {}
                at_loop_end(self, partial(_close, clients))

            if make not in clients:
                clients[make] = make()

            return clients[make]


async def _close(clients: dict[Any, Any]) -> None:
    """Close clients, and let go of them: they refer to the loop, which would stay as long as its entry.

    One whose closing was cancelled is closed when this is called again: a client would say that it is closed already.
    """
    for client in tuple(clients.values()):
        await close_all(transports_of(client))

    clients.clear()


def transports_of(http: Any) -> tuple[Any, ...]:
    """What an HTTP client of the SDKs sends through."""
    sending = (http._transport, *http._mounts.values())  # noqa: SLF001 -- closing the client is the only other way

    return tuple(transport for transport in sending if transport is not None)


async def close_all(transports: Iterable[Any]) -> None:
    """Close each of them; closing again what is closed does nothing."""
    for transport in transports:
        await transport.aclose()


def is_trio(loop: object) -> bool:
    """Whether a native token of anyio is of trio."""
    return type(loop).__module__.startswith("trio")
