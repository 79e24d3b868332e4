"""One SDK client per event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token

from simulacra.errors import ConfigurationError

C = TypeVar("C")

_SDK_TRANSPORT = "AsyncHttpxClientWrapper"
"""Class of the HTTP client that the SDKs of Anthropic and OpenAI make when they are given none."""


class ClientPerLoop(Generic[C]):
    """The client a provider was given, and copies of it for every further event loop it is used on.

    A copy has a transport of its own that keeps no idle connection, so that nothing is left open when its loop ends.

    Args:
        client: The client that was given; it belongs to the first loop that asks.
        expected: The SDK's class of async clients.
        transport: Makes a transport of the SDK, as `transport(timeout=..., limits=...)`.
        http: The module of the SDK's HTTP client.

    Raises:
        ConfigurationError: The client, or its HTTP client, is of another class.
    """

    def __init__(self, client: C, *, expected: type[C], transport: Callable[..., Any], http: ModuleType) -> None:
        if not isinstance(client, expected):
            module, _, _ = expected.__module__.partition(".")
            raise ConfigurationError(f"the client must be an {module}.{expected.__name__}, not {type(client).__name__}")

        if not isinstance(_transport_of(client), http.AsyncClient):
            raise ConfigurationError(
                f"the client's http_client must be an {http.__name__}.AsyncClient: no other one is supported"
            )

        self.original = client
        self._transport = transport
        self._http = http
        self._by_loop: WeakKeyDictionary[object, C] = WeakKeyDictionary()
        self._is_claimed = False
        self._lock = threading.Lock()

    def current(self) -> C:
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

    def _copy(self) -> C:
        original: Any = self.original

        if type(_transport_of(original)).__name__ != _SDK_TRANSPORT:
            raise ConfigurationError(
                "this provider's client has an http_client of its own, which belongs to the event loop it was first"
                f" used on. Build the provider anew on this loop, or give its {type(original).__name__} no http_client"
            )

        limits = self._http.Limits(max_connections=1000, max_keepalive_connections=0)
        copied: C = original.copy(http_client=self._transport(timeout=original.timeout, limits=limits))

        return copied


def _transport_of(client: Any) -> Any:
    return client._client  # noqa: SLF001 -- the SDKs tell their transport nowhere else
