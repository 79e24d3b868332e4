"""One SDK client per event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token

from simulacra.errors import ConfigurationError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_SDK_TRANSPORT = "AsyncHttpxClientWrapper"
"""Class of the HTTP client that the SDK makes when it is given none."""


class ClientPerLoop:
    """The client a provider was given, and copies of it for every further event loop it is used on.

    A copy has a transport of its own that keeps no idle connection, so that nothing is left open when its loop ends.

    Args:
        client: The client that was given; it belongs to the first loop that asks.

    Raises:
        ConfigurationError: It is not an `AsyncOpenAI`, or its HTTP client is of the old `httpx`.
    """

    def __init__(self, client: AsyncOpenAI) -> None:
        import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package
        import openai  # noqa: PLC0415 -- the SDK is imported on first use

        if not isinstance(client, openai.AsyncOpenAI):
            raise ConfigurationError(f"the client must be an openai.AsyncOpenAI, not {type(client).__name__}")

        if not isinstance(client._client, httpx2.AsyncClient):  # noqa: SLF001 -- the SDK tells its transport nowhere else
            raise ConfigurationError("the client's http_client must be an httpx2.AsyncClient: httpx is not supported")

        self.original = client
        self._by_loop: WeakKeyDictionary[object, AsyncOpenAI] = WeakKeyDictionary()
        self._is_claimed = False
        self._lock = threading.Lock()

    def current(self) -> AsyncOpenAI:
        """The client of the running loop.

        Raises:
            ConfigurationError: A second loop needs a copy, but the client has an HTTP client of its own.
        """
        loop = current_token().native_token

        with self._lock:
            client = self._by_loop.get(loop)

            if client is None:
                client = self._copy() if self._is_claimed else self.original
                self._is_claimed = True
                self._by_loop[loop] = client

            return client

    def _copy(self) -> AsyncOpenAI:
        import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package
        import openai  # noqa: PLC0415 -- the SDK is imported on first use

        if type(self.original._client).__name__ != _SDK_TRANSPORT:  # noqa: SLF001 -- the SDK tells its transport nowhere else
            raise ConfigurationError(
                "this provider's client has an http_client of its own, which belongs to the event loop it was first"
                " used on. Build the provider anew on this loop, or give its AsyncOpenAI no http_client"
            )

        limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=0)

        return self.original.copy(
            http_client=openai.DefaultAsyncHttpx2Client(timeout=self.original.timeout, limits=limits)
        )
